package redistest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// StartCluster runs one redis-server in cluster mode that owns all 16384 slots. It refuses a
// command or a script call whose declared keys lie in several slots, as a cluster of many nodes
// would.
//
// A cluster of many nodes would refuse more. Since this server owns every slot, a script without a
// "#!lua" line may touch keys that it has not declared. An ACL forbids that.
//
// A fresh cluster node waits two seconds before it serves, so share one between subtests where that
// does not blur them.
func StartCluster(tb testing.TB) *Server {
	tb.Helper()
	s := Start(tb, "--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1")
	c := s.Client(tb)
	if err := c.ClusterAddSlotsRange(context.Background(), 0, 16383).Err(); err != nil {
		tb.Fatalf("give all slots to the cluster node: %v", err)
	}
	for deadline := time.Now().Add(startTimeout); !clusterServes(c); time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			tb.Fatalf("the cluster did not become ready within %v", startTimeout)
		}
	}
	return s
}

func clusterServes(c *redis.Client) bool {
	info, err := c.ClusterInfo(context.Background()).Result()
	return err == nil && strings.Contains(info, "cluster_state:ok")
}
