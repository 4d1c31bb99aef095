package lua

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
)

// As a node says that was removed from its cluster and lives on.
func TestAScanOfAClusterThatNamesNoNodesIsAnError(t *testing.T) {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:        []string{"127.0.0.1:1"},
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return nil, nil },
	})
	defer rdb.Close()
	if page, more, err := NewServer(rdb, "w:", "a").Scan("fairlock", 10).Next(t.Context()); err == nil || more || len(page) > 0 {
		t.Errorf("%v, %v, %v", page, more, err)
	}
}
