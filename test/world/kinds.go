package world

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/reentrant"
	"github.com/fairlock/locks/test/conformance"
)

// Kind is a kind of lock: the function that makes its Lockers.
type Kind = func(redis.UniversalClient, ...fairlock.Option) conformance.Locker

// Fair is the kind of lock with a line.
func Fair(rdb redis.UniversalClient, options ...fairlock.Option) conformance.Locker {
	return fairlock.New(rdb, options...)
}

// Plain is the kind of lock without a line.
func Plain(rdb redis.UniversalClient, options ...fairlock.Option) conformance.Locker {
	return reentrant.New(rdb, options...)
}

// BothKinds runs a test with each kind of lock. prefix is what the keys of that kind begin with.
func BothKinds(t *testing.T, test func(t *testing.T, kind Kind, prefix string)) {
	t.Helper()
	t.Run("fair", func(t *testing.T) { test(t, Fair, "fairlock") })
	t.Run("plain", func(t *testing.T) { test(t, Plain, "fairlock:plain") })
}
