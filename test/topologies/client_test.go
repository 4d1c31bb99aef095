package topologies

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// These tests are about what a client and its server look like to the library.

// The reply is that of a server with rename-command INFO "".
func TestLocksAreGivenOutWhereTheServerHasNoInfo(t *testing.T) {
	proxy := faultproxy.New(t, redistest.Start(t).Addr())
	asked := proxy.Add(faultproxy.Rule{Match: faultproxy.Command("INFO"), Action: faultproxy.RewriteReply(func([]byte) []byte {
		return []byte("-ERR unknown command 'info', with args beginning with: \r\n")
	})})
	world.BothKinds(t, func(t *testing.T, kind world.Kind, _ string) {
		rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
		defer rdb.Close()
		locker := kind(rdb)
		defer locker.Close()
		lease, err := locker.Lock(t.Context(), "x")
		if err != nil || lease.Unlock(t.Context()) != nil {
			t.Fatal(err)
		}
	})
	if asked.Hits() != 2 {
		t.Errorf("it was asked %d times", asked.Hits())
	}
}

// hiding is a client whose type nobody can see.
type hiding struct{ redis.UniversalClient }

func TestTheLogWarnsOfAClusterWhoseClientDoesNotLookLikeOne(t *testing.T) {
	one, cluster := redistest.Start(t), redistest.StartCluster(t)
	world.BothKinds(t, func(t *testing.T, kind world.Kind, _ string) {
		for _, c := range []struct {
			rdb   redis.UniversalClient
			lines int
		}{
			{one.Client(t), 0},
			{hiding{one.Client(t)}, 0},
			{clusterClient(t, cluster), 0},
			{wrapped{clusterClient(t, cluster)}, 0},
			{hiding{clusterClient(t, cluster)}, 1},
			{cluster.Client(t), 1},
		} {
			var log bytes.Buffer
			locker := kind(c.rdb, fairlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			for _, name := range []string{"a", "b"} {
				lease, err := locker.Lock(t.Context(), name)
				if err != nil || lease.Unlock(t.Context()) != nil {
					t.Fatal(err)
				}
			}
			_ = locker.Close() // it never fails
			if n := strings.Count(log.String(), "node of a cluster"); n != c.lines {
				t.Errorf("%T: %d lines: %s", c.rdb, n, log.String())
			}
		}
	})
}

func clusterClient(t *testing.T, node *redistest.Server) *redis.ClusterClient {
	t.Helper()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{node.Addr()}})
	t.Cleanup(func() { _ = rdb.Close() }) // the test is over
	return rdb
}

// wrapped is a cluster's client inside another type, as for metrics.
type wrapped struct{ *redis.ClusterClient }
