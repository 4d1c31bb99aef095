package pubsub_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/pubsub"
	"github.com/fairlock/locks/test/bubbles"
	"github.com/fairlock/locks/test/pipes"
	"github.com/fairlock/locks/test/written"
)

// journal is a log that a test reads while it is written.
type journal struct{ written.Text }

// lines returns the lines that contain all texts.
func (j *journal) lines(texts ...string) (found []string) {
	for line := range strings.Lines(j.String()) {
		ok := true
		for _, text := range texts {
			ok = ok && strings.Contains(line, text)
		}
		if ok {
			found = append(found, line)
		}
	}
	return found
}

// outOfReach runs the test in fake time: with a Hub, with the log of the hub, and with a network
// that the test can take away and give back.
func outOfReach(t *testing.T, test func(t *testing.T, e *recorder, log *journal, network func(up bool))) {
	t.Helper()
	bubbles.Test(t, func(t *testing.T) {
		mini := pipes.New(t)
		var away atomic.Bool
		var mu sync.Mutex // guards conns
		var conns []net.Conn
		rdb := redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:0", DialerRetries: 1,
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if away.Load() {
					return nil, errors.New("no route to host")
				}
				conn, err := mini.Dial(ctx, network, addr)
				mu.Lock()
				defer mu.Unlock()
				conns = append(conns, conn)
				return conn, err
			},
		})
		defer func() { _ = rdb.Close() }() // the test is over
		log := new(journal)
		hub := pubsub.New(rdb, slog.New(slog.NewTextHandler(log, nil)))
		defer hub.Close()
		var e recorder
		hub.Listen("a", e.listener())
		synctest.Wait()
		test(t, &e, log, func(up bool) {
			away.Store(!up)
			mu.Lock()
			defer mu.Unlock()
			for _, conn := range conns {
				_ = conn.Close() // some are closed already
			}
			conns = nil
		})
	})
}

func TestASubscriptionThatIsLostIsALineAMinuteUntilItIsBackWhichIsOne(t *testing.T) {
	outOfReach(t, func(t *testing.T, e *recorder, log *journal, network func(bool)) {
		network(false)
		time.Sleep(time.Hour)
		lost := log.lines("level=WARN", "subscription lost")
		if len(lost) < 50 || len(lost) > 60 || !strings.Contains(lost[0], "away=0s") || !strings.Contains(lost[30], "away=30m") ||
			!strings.Contains(lost[30], "no route to host") {
			t.Fatalf("%d lines, such as %q and %q", len(lost), lost[0], lost[len(lost)/2])
		}
		network(true)
		time.Sleep(time.Hour)
		if ups, _ := e.heard(); ups != 2 {
			t.Errorf("it was up %d times", ups)
		}
		back := log.lines("level=INFO", "subscription is back", "away=1h")
		if all := log.lines(""); len(back) != 1 || len(all) != len(lost)+1 {
			t.Errorf("%q", all)
		}
	})
}

func TestASubscriptionThatIsLostAgainAndAgainIsALineAMinute(t *testing.T) {
	outOfReach(t, func(t *testing.T, _ *recorder, log *journal, network func(bool)) {
		for range 600 {
			network(false)
			network(true)
			time.Sleep(time.Second)
		}
		lost, back := log.lines("level=WARN", "subscription lost"), log.lines("level=INFO", "subscription is back")
		if len(lost) < 9 || len(lost) > 11 || len(back) != len(lost) || !strings.Contains(lost[5], "failed=59") {
			t.Errorf("%d lost, as %q; %d back", len(lost), lost, len(back))
		}
	})
}

// Behind Sentinel, the old master may live on, cut off from those who switched to another one.
func TestALookThatFailsIsRepeatedUntilAServerHasSaidWhetherItSeesTheSubscription(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		old, next := pipes.New(t), pipes.New(t)
		var master atomic.Pointer[pipes.Server]
		var pooled net.Conn // the latest connection
		rdb := redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:0", DialerRetries: 1, MaxRetries: -1,
			Dialer: func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
				s := master.Load()
				if s == nil {
					return nil, errors.New("no route to host")
				}
				pooled, err = s.Dial(ctx, network, addr)
				return pooled, err
			},
		})
		defer func() { _ = rdb.Close() }() // the test is over
		master.Store(old)
		hub := pubsub.New(rdb, slog.New(slog.DiscardHandler))
		defer hub.Close()
		var e recorder
		hub.Listen("a", e.listener())
		synctest.Wait()
		if err := rdb.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		master.Store(nil)
		_ = pooled.Close() // all that matters is that the pool drops it
		for rdb.PoolStats().StaleConns == 0 {
			_ = rdb.Ping(t.Context()).Err()
		}
		time.Sleep(5 * time.Second)
		master.Store(next)
		time.Sleep(5 * time.Second)
		if ups, _ := e.heard(); ups != 2 {
			t.Errorf("it was up %d times", ups)
		}
	})
}
