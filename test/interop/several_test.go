package interop

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/java"
	"github.com/fairlock/locks/test/redistest"
)

// handOver has Java wait for Go, and Go for Java, in both kinds.
func (w *world) handOver(a *java.Thread, rdb func() redis.UniversalClient) {
	w.Helper()
	for _, kind := range kinds {
		l := w.over(rdb(), kind, mine()...)
		for _, name := range []string{"x", "a{b}c", "another"} {
			lease := w.has(l, name)
			next := a.Lock(kind, name)
			w.inLineOf(rdb, kind, name)
			w.waits(next)
			w.unlock(lease)
			w.returned(next)
			last := w.asks(w.Context(), l, name)
			w.inLineOf(rdb, kind, name)
			w.returned(a.Unlock(kind, name))
			w.unlock(w.gets(last))
		}
	}
}

// inLineOf waits until somebody stands in the line of a fair lock.
func (w *world) inLineOf(rdb func() redis.UniversalClient, kind java.Kind, name string) {
	w.Helper()
	if kind == java.Plain {
		return
	}
	c := rdb()
	defer func() { _ = c.Close() }()
	key := "redisson_lock_queue:{" + name + "}"
	if name == "a{b}c" {
		key = "redisson_lock_queue:" + name
	}
	w.until("somebody is in line", func() bool { return c.LLen(w.Context(), key).Val() == 1 })
}

func TestOnAClusterBothShardTheirChannels(t *testing.T) {
	java.Require(t)
	cluster := redistest.StartNodes(t, 3, patience)
	w := &world{T: t}
	a := w.jvm(java.Config{Addrs: cluster.Addrs(), Cluster: true, Watchdog: brief, FairWait: javaWait}).Thread("a")
	w.handOver(a, func() redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	})
}

func TestUnderSentinelBothFollowTheMaster(t *testing.T) {
	java.Require(t)
	s := redistest.StartSentinels(t)
	w := &world{T: t}
	a := w.jvm(java.Config{Addrs: s.Addrs(), Master: redistest.MasterName, Watchdog: brief, FairWait: javaWait}).Thread("a")
	client := func() redis.UniversalClient {
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: s.Addrs()})
	}
	w.handOver(a, client)
	s.KillMaster()
	w.until("Java has found the new master", func() bool { return a.TryLock(java.Fair, "found").Err(w.Context()) == nil })
	w.handOver(a, client)
}
