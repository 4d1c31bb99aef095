package workers

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
)

// The fence is what the locks protect: a place on a server of its own, which nothing happens to, that takes no write with a
// smaller token than it has seen.
//
//	KEYS  1 the largest token  2 how many writes were taken  3 how many were refused
//	ARGV  1 the writer's token
//	Reply 1 if the write was taken
var fenced = redis.NewScript(`
	if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1]) or 0) then
		redis.call('INCR', KEYS[3])
		return 0
	end
	redis.call('SET', KEYS[1], ARGV[1])
	return redis.call('INCR', KEYS[2]) and 1`)

// FenceKeys are where the fence of a lock keeps the largest token, and how many writes it took and refused.
func FenceKeys(name string) []string {
	return []string{"fence:token:" + name, "fence:taken:" + name, "fence:refused:" + name}
}

// guarded locks and unlocks in Count goroutines until Halt, and writes to the fence while it holds the lock. Failures are
// counted: they are what a server that is away costs.
func (w *worker) guarded(c command) {
	all := make(chan []Turn, c.Count)
	fence := redis.NewClient(&redis.Options{Addr: c.Addr})
	defer fence.Close()
	for range c.Count {
		go func() {
			var turns []Turn
			for !w.isHalted() {
				turns = append(turns, w.guard(c, fence))
			}
			all <- turns
		}()
	}
	var turns []Turn
	for range c.Count {
		turns = append(turns, <-all...)
	}
	w.tell(Event{ID: c.ID, Kind: Done, Turns: turns})
}

// guard is one turn. It is over when the lease is not to be trusted any more, if that comes before its Unlock.
func (w *worker) guard(c command, fence *redis.Client) Turn {
	ctx, turn := context.Background(), Turn{Asked: time.Now()}
	lease, err := w.locker.Lock(ctx, c.Name)
	if err != nil {
		time.Sleep(20 * time.Millisecond)
		turn.Error = err.Error()
		return turn
	}
	turn.Token, turn.Owner, turn.Taken = lease.Token(), lease.Owner(), time.Now()
	taken, err := fenced.Run(ctx, fence, FenceKeys(c.Name), turn.Token).Int()
	turn.Refused = err == nil && taken == 0
	select {
	case <-time.After(c.Lasting):
	case <-lease.Done():
	}
	turn.Freed = time.Now()
	if err := errors.Join(err, lease.Unlock(ctx)); err != nil {
		turn.Lost = errors.Is(err, fairlock.ErrLost)
		turn.Error = err.Error()
	}
	return turn
}

func (w *worker) halt(command) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.halted = true
}

func (w *worker) isHalted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.halted || w.closed
}
