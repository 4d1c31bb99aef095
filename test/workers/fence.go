package workers

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
)

// The fence is what the locks protect. It lives on a server of its own, to which nothing happens.
// The fence accepts each token once, and no smaller token after it. It also counts the writers that
// are there. A writer is there from its write, accepted or not, until it says that it goes.
//
//	KEYS  1 the largest token          2 how many writes were taken  3 how many were refused
//	      4 how many writers are there 5 turns of each process
//	ARGV  1 the writer's token         2 its process
//	Reply {how many writers are there now, 1: the write was refused}
var fenced = redis.NewScript(`
	local refused = tonumber(ARGV[1]) <= tonumber(redis.call('GET', KEYS[1]) or 0)
	if refused then
		redis.call('INCR', KEYS[3])
	else
		redis.call('SET', KEYS[1], ARGV[1])
		redis.call('INCR', KEYS[2])
	end
	redis.call('HINCRBY', KEYS[5], ARGV[2], 1)
	return {redis.call('INCR', KEYS[4]), refused and 1 or 0}`)

// FenceKeys returns where the fence of a lock keeps the largest token, how many writes it took and
// refused, how many writers are there, and how often each process came.
func FenceKeys(name string) []string {
	return []string{"fence:token:" + name, "fence:taken:" + name, "fence:refused:" + name, "fence:inside:" + name, "fence:turns:" + name}
}

// guarded locks and unlocks in Count goroutines until Halt, and writes to the fence while it holds
// the lock. Failures are counted, because a server that is away causes them.
func (w *worker) guarded(c command) {
	// No retries: each write must be counted once.
	fence := redis.NewClient(&redis.Options{Addr: c.Addr, MaxRetries: -1, ReadTimeout: Patience})
	defer fence.Close()
	var all sync.WaitGroup
	var mu sync.Mutex // guards turns
	var turns []Turn
	for range c.Count {
		all.Go(func() {
			for !w.isHalted() {
				turn := w.guard(c, fence)
				mu.Lock()
				turns = append(turns, turn)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	w.tell(Event{ID: c.ID, Kind: Done, Turns: turns})
}

// guard is one turn. A turn is over at its Unlock, or earlier when the lease may no longer be
// trusted.
func (w *worker) guard(c command, fence *redis.Client) Turn {
	ctx, turn := context.Background(), Turn{Asked: time.Now()}
	lease, err := w.locker.Lock(ctx, c.Name)
	if err != nil {
		time.Sleep(10 * time.Millisecond) // a user's loop would also pause while there is no master
		turn.Error = err.Error()
		return turn
	}
	turn.Token, turn.Owner, turn.Taken = lease.Token(), lease.Owner(), time.Now()
	process, _, _ := strings.Cut(turn.Owner, ":")
	seen, err := fenced.Run(ctx, fence, FenceKeys(c.Name), turn.Token, process).Int64Slice()
	if err == nil {
		turn.Inside, turn.Refused = seen[0], seen[1] == 1
		select {
		case <-time.After(c.Lasting):
		case <-lease.Done():
		}
		err = fence.Decr(ctx, FenceKeys(c.Name)[3]).Err()
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
