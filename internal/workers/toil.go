package workers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
)

// StartOnCluster starts a worker that uses the cluster of these nodes. resource is a server apart from it, which the locks protect.
func StartOnCluster(tb testing.TB, name string, nodes []string, resource string, lease time.Duration) *Worker {
	tb.Helper()
	return launch(tb, name, command{Do: open, Addr: resource, Cluster: nodes, Lease: lease})
}

// silence keeps go-redis from telling that it could not dial.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// Toil has n goroutines lock name, write to the resource and unlock, whatever fails, until Rest.
func (w *Worker) Toil(name string, n int) *Call {
	w.tb.Helper()
	return w.send(command{Do: toil, Name: name, Count: n})
}

// Rest has them stop; then Toil is Done.
func (w *Worker) Rest() {
	w.tb.Helper()
	w.send(command{Do: rest})
}

// writes is a write to a resource that takes no token smaller than one that it has seen.
//
//	KEYS  as of the witness   ARGV  1 the token
//	Reply {how many are inside now, 1: it was refused}
var writes = redis.NewScript(`
	local refused = tonumber(redis.call('GET', KEYS[2]) or 0) >= tonumber(ARGV[1])
	if not refused then redis.call('SET', KEYS[2], ARGV[1]) end
	return {redis.call('INCR', KEYS[1]), refused and 1 or 0}`)

func (w *worker) toil(c command) {
	var all sync.WaitGroup
	var mu sync.Mutex // guards turns
	var turns []Turn
	for range c.Count {
		all.Go(func() {
			for !w.rests() {
				turn, err := w.write(c)
				if err != nil {
					time.Sleep(10 * time.Millisecond) // as a user's loop would, while there is no master
				}
				if turn.Token != 0 {
					mu.Lock()
					turns = append(turns, turn)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	w.tell(Event{ID: c.ID, Kind: Done, Turns: turns})
}

func (w *worker) rest(command) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resting = true
}

func (w *worker) rests() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.resting || w.closed
}

// write is one round of toil. Whoever lost the lock has left when it ends.
func (w *worker) write(c command) (turn Turn, err error) {
	asked := time.Now()
	err = w.locker.Do(context.Background(), c.Name, func(ctx context.Context, lease *fairlock.Lease) error {
		turn = Turn{Token: lease.Token(), Owner: lease.Owner(), Asked: asked, Taken: time.Now()}
		keys := WitnessKeys(c.Name)
		seen, err := writes.Run(ctx, w.resource, keys, turn.Token).Int64Slice()
		if err != nil {
			return err
		}
		turn.Inside, turn.Refused = seen[0], seen[1] == 1
		turn.Freed = time.Now()
		return errors.Join(ctx.Err(), w.resource.Decr(context.WithoutCancel(ctx), keys[0]).Err())
	})
	return turn, err
}
