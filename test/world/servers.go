package world

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/redistest"
)

// Replicated returns a server with one replica that is up to date.
func Replicated(t testing.TB) (master, replica *redistest.Server) {
	t.Helper()
	master = redistest.Start(t, "--repl-diskless-sync-delay", "0", "--repl-timeout", "3600")
	replica = redistest.Start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(master.Port()))
	rdb := master.Client(t)
	Until(t, "the replica follows", func() bool { return rdb.Wait(t.Context(), 1, time.Second).Val() == 1 })
	return master, replica
}

// Subscriptions returns how many connections to a server are subscribed.
func Subscriptions(admin *redis.Client) int {
	return strings.Count(admin.Do(context.Background(), "client", "list", "type", "pubsub").String(), "laddr=")
}
