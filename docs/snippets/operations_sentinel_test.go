package snippets_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

func TestTheClientThatTheGuideBehindSentinelShowsHasLocks(t *testing.T) {
	sentinels := redistest.StartSentinels(t).Addrs()
	//guide:operations.md
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "locks", SentinelAddrs: sentinels})
	defer rdb.Close()
	locker := fairlock.New(rdb)
	defer locker.Close()
	//guide:end
	must(t, take(t, locker, "x").Unlock(t.Context()))
}
