package conformance_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/bubbles"
	"github.com/fairlock/locks/test/conformance"
	"github.com/fairlock/locks/test/pipes"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

func TestFairLockOnTheEmbeddedServerInFakeTime(t *testing.T)  { onEmbedded(t, world.Fair, false) }
func TestPlainLockOnTheEmbeddedServerInFakeTime(t *testing.T) { onEmbedded(t, world.Plain, true) }
func TestFairLockOnARealServer(t *testing.T)                  { onReal(t, world.Fair, false) }
func TestPlainLockOnARealServer(t *testing.T)                 { onReal(t, world.Plain, true) }
func TestFairLockOverTLSOnARealServer(t *testing.T)           { overTLS(t, world.Fair, false) }
func TestPlainLockOverTLSOnARealServer(t *testing.T)          { overTLS(t, world.Plain, true) }

// enough is a pool size for all calls that ask at once in fake time. go-redis reuses the timers of
// calls that wait for a connection, and would pass them on to calls outside the bubble.
const enough = 1000

func onEmbedded(t *testing.T, kind world.Kind, plain bool) {
	t.Helper()
	conformance.Run(t, func(t *testing.T, test func(conformance.World)) {
		bubbles.Test(t, func(t *testing.T) {
			mini := pipes.New(t)
			test(conformance.World{T: t, Lease: 30 * time.Second, Fake: true, New: kind, Plain: plain, Dial: func() redis.UniversalClient {
				return redis.NewClient(&redis.Options{
					Addr:   "127.0.0.1:0",                                 // parsed: a name would be resolved
					Dialer: mini.Dial, PoolSize: enough, DialerRetries: 1, // a dial that waits to be repeated would outlive the test
				})
			}})
		})
	})
}

// realLease passes soon. Tests that need no lease to pass have a longer one.
const realLease = time.Second

func onReal(t *testing.T, kind world.Kind, plain bool) {
	t.Helper()
	t.Parallel()
	server := redistest.Start(t)
	on(t, server, &redis.Options{Addr: server.Addr()}, realLease, kind, plain)
}

func overTLS(t *testing.T, kind world.Kind, plain bool) {
	t.Helper()
	t.Parallel()
	authority := redistest.NewAuthority(t)
	server := redistest.StartTLS(t, authority, "--tls-auth-clients", "yes")
	options := server.Over(authority.Client("a worker"))
	options.ReadTimeout, options.WriteTimeout = time.Minute, time.Minute // so no caller sends its requests itself
	on(t, server.Server, options, realLease, kind, plain)
}

func on(t *testing.T, server *redistest.Server, options *redis.Options, lease time.Duration, kind world.Kind, plain bool) {
	t.Helper()
	conformance.Run(t, func(t *testing.T, test func(conformance.World)) {
		server.Client(t).FlushAll(context.Background())
		test(conformance.World{T: t, Lease: lease, New: kind, Plain: plain, Dial: func() redis.UniversalClient {
			each := *options
			rdb := redis.NewClient(&each)
			rdb.Ping(context.Background()) // a handshake takes time, and is not what is measured
			return rdb
		}})
	})
}
