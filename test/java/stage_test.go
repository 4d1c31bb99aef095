package java

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/redistest"
)

// stage is a JVM and its server for one promise about Redisson.
type stage struct {
	*testing.T
	j   *JVM
	rdb *redis.Client
	x   string // the name of a lock of this promise alone
}

// promises are what package redisson relies on: what is in Redis, and who is told.
var promises = []struct {
	sentence string
	check    func(*stage)
}{
	{"a fair lock's keys and channels have these names whatever its name is", fairNames},
	{"a plain lock's key and channel have these names whatever its name is", plainNames},
	{"the line is served in the order of arrival", order},
	{"a hold counts its locks and a partial unlock renews it", counts},
	{"a stranger's unlock succeeds on a free fair lock and throws on every other", strangers},
	{"tryLock stands in no line and passes nobody who does", tries},
	{"a forced unlock tells the first in line", forced},
	{"who gives up tells nobody", givesUp},
	{"a deadline is that of the one before plus the own wait, and falls by that of each holder", deadlines},
	{"who gives up takes the own wait from those behind", cancels},
	{"a wait in seconds without a lease adds milliseconds and takes seconds", seconds},
	{"who is interrupted stays in line", interrupted},
	{"who is behind a dead head of a free lock asks without a pause", busy},
	{"a dead head goes at its deadline, whoever asks", swept},
	{"a hold that never expires has fair waiters ask without a pause, and plain ones only listen", endless},
}

func TestRedissonKeepsWhatPackageRedissonReliesOn(t *testing.T) {
	for _, version := range []string{V3, V4} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			j, rdb := Start(t, Config{Version: version, Addrs: []string{server.Addr()}}), server.Client(t)
			for i, p := range promises {
				t.Run(p.sentence, func(t *testing.T) {
					s := &stage{T: t, j: j, rdb: rdb, x: fmt.Sprint("x", i)}
					p.check(s)
					s.nothingStays()
				})
			}
		})
	}
}

// thread returns a thread of this promise alone, and its owner.
func (s *stage) thread(name string) (*Thread, string) {
	s.Helper()
	th := s.j.Thread(s.Name() + " " + name)
	owner, err := th.Owner().Text(s.Context())
	must(s.T, err)
	return th, owner
}

// in returns what Redisson makes of the name of a lock.
func in(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

func queue(name string) string     { return in("redisson_lock_queue", name) }
func deadlined(name string) string { return in("redisson_lock_timeout", name) }
func channel(name string) string   { return in("redisson_lock__channel", name) }

// inLine returns when these owners are in line, and listen for their turn.
func (s *stage) inLine(name string, owners ...string) {
	s.Helper()
	until(s.T, strings.Join(owners, ", ")+" are in line", func() bool {
		line := s.rdb.LRange(s.Context(), queue(name), 0, -1).Val()
		return strings.Join(line, " ") == strings.Join(owners, " ")
	})
	until(s.T, "the last of them listens", func() bool {
		return s.listeners(channel(name)+":"+owners[len(owners)-1]) == 1
	})
}

func (s *stage) listeners(channel string) int64 {
	return s.rdb.PubSubNumSub(s.Context(), channel).Val()[channel]
}

// deadline returns when the owner is due to be dropped from the line, in epoch milliseconds.
func (s *stage) deadline(name, owner string) int64 {
	s.Helper()
	score, err := s.rdb.ZScore(s.Context(), deadlined(name), owner).Result()
	must(s.T, err)
	return int64(score)
}

// overhear returns the messages for the waiters of any lock: "channel message".
func (s *stage) overhear() (next func() string) {
	s.Helper()
	sub := s.rdb.PSubscribe(s.Context(), "redisson_lock__channel:*")
	s.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(s.Context())
	must(s.T, err)
	return func() string {
		s.Helper()
		ctx, cancel := context.WithTimeout(s.Context(), patience)
		defer cancel()
		m, err := sub.ReceiveMessage(ctx)
		must(s.T, err)
		return m.Channel + " " + m.Payload
	}
}

// nothingStays returns when the server has no keys and no subscriptions. It looks away from the
// latches of unlocks, private to one request of Java: 3.52 leaves them to expire, some 20 s later.
func (s *stage) nothingStays() {
	s.Helper()
	until(s.T, "no key is left", func() bool {
		keys, err := s.rdb.Keys(s.Context(), "*").Result()
		return err == nil && !slices.ContainsFunc(keys, func(key string) bool {
			return !strings.HasPrefix(key, "redisson_unlock_latch:")
		})
	})
	until(s.T, "no subscription is left", func() bool {
		return len(s.rdb.PubSubChannels(s.Context(), "redisson_lock*").Val()) == 0
	})
}
