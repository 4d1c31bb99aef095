package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/reentrant"
	"github.com/fairlock/locks/test/redistest"
)

// Dials is where go-redis tries again to reach a server that is away. It goes on for a second after
// the pool was closed.
const Dials = "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"

// environment is the variable that makes a process a worker.
const environment = "FAIRLOCK_WORKER"

// Main does nothing, unless this process is a worker. A worker works until its standard input ends,
// and exits. TestMain calls Main before anything else.
func Main() { Play(environment, func(string) error { return work(os.Stdin, os.Stdout) }) }

// work obeys commands until in ends. Then nothing of the Locker may be left.
func work(in io.Reader, out io.Writer) error {
	w := &worker{out: json.NewEncoder(out), held: make(map[int][]*fairlock.Lease)}
	w.progress.L = &w.mu
	err := w.obey(json.NewDecoder(in))
	w.close()
	return errors.Join(err, goleak.Find(goleak.IgnoreAnyFunction(Dials)))
}

// worker is the worker's side, in its own process.
type worker struct {
	rdb    redis.UniversalClient
	locker fairlock.Interface

	tasks sync.WaitGroup // one goroutine or more for each command

	writing sync.Mutex // guards out
	out     *json.Encoder

	mu       sync.Mutex // guards all below
	held     map[int][]*fairlock.Lease
	rounds   int       // that loops have done
	halted   bool      // the loops at the fence end
	closed   bool      // all loops end
	progress sync.Cond // rounds or closed changed
}

func (w *worker) obey(in *json.Decoder) error {
	for {
		var c command
		switch err := in.Decode(&c); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		do, ok := map[verb]func(command){
			lock: w.lock, nest: w.nest, unlock: w.unlock, loop: w.loop, reach: w.reach, guard: w.guarded, halt: w.halt,
		}[c.Do]
		switch {
		case c.Do == open:
			w.open(c)
		case !ok:
			return fmt.Errorf("unknown command %q", c.Do)
		default:
			w.tasks.Go(func() { do(c) })
		}
	}
}

func (w *worker) open(c command) {
	switch {
	case c.Cluster != nil:
		w.rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Cluster})
	case c.Group != nil:
		w.rdb = redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: c.Group})
	default:
		w.rdb = redis.NewClient(&redis.Options{Addr: c.Addr})
	}
	options := []fairlock.Option{fairlock.WithLease(c.Lease)}
	if c.Cluster != nil { // a node of the cluster may be away
		redis.SetLogger(silence{})
		options = append(options, fairlock.WithLogger(slog.New(slog.DiscardHandler)))
	}
	if c.Plain {
		w.locker = reentrant.New(w.rdb, options...)
	} else {
		w.locker = fairlock.New(w.rdb, options...)
	}
	w.tell(Event{ID: c.ID, Kind: Opened})
}

func (w *worker) close() {
	w.mu.Lock()
	w.closed = true
	w.progress.Broadcast()
	w.mu.Unlock()
	if w.locker != nil {
		_ = w.locker.Close() // it never fails
	}
	w.tasks.Wait()
	if w.rdb != nil {
		_ = w.rdb.Close() // how a connection ends changes nothing here
	}
}

func (w *worker) tell(e Event) {
	w.writing.Lock()
	defer w.writing.Unlock()
	// If nobody listens any more, this process has no reason to go on either, and will notice.
	_ = w.out.Encode(e)
}

// silence keeps go-redis from logging failed dials.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// failed reports an error. ErrClosed is not reported, because a worker ends by closing its Locker.
func (w *worker) failed(c command, err error) {
	if !errors.Is(err, fairlock.ErrClosed) {
		w.tell(Event{ID: c.ID, Kind: Failed, Error: err.Error()})
	}
}

func (w *worker) lock(c command) {
	var all sync.WaitGroup
	for range max(1, c.Count) {
		all.Go(func() {
			if _, err := w.take(context.Background(), c); err != nil {
				w.failed(c, err)
			}
		})
	}
	all.Wait()
}

func (w *worker) nest(c command) {
	ctx := context.Background()
	for range c.Depth {
		lease, err := w.take(ctx, c)
		if err != nil {
			w.failed(c, err)
			return
		}
		ctx = lease.Context()
	}
}

// options returns the options for a Lock.
func (c command) options() []fairlock.LockOption {
	options := []fairlock.LockOption{fairlock.Note(c.Note)}
	if c.Owner != "" {
		options = append(options, fairlock.WithOwner(c.Owner))
	}
	return options
}

// take locks once, reports that, and watches over the lease.
func (w *worker) take(ctx context.Context, c command) (*fairlock.Lease, error) {
	lease, err := w.locker.Lock(ctx, c.Name, c.options()...)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.held[c.ID] = append(w.held[c.ID], lease)
	w.mu.Unlock()
	w.tell(Event{ID: c.ID, Kind: Granted, Token: lease.Token(), Owner: lease.Owner(), Depth: lease.Depth()})
	w.tasks.Go(func() {
		<-lease.Done()
		if err := lease.Err(); errors.Is(err, fairlock.ErrLost) {
			w.tell(Event{ID: c.ID, Kind: Lost, Token: lease.Token(), Error: err.Error()})
		}
	})
	return lease, nil
}

func (w *worker) unlock(c command) {
	w.mu.Lock()
	leases := w.held[c.Of]
	delete(w.held, c.Of)
	w.mu.Unlock()
	for _, lease := range leases {
		if err := lease.Unlock(context.Background()); err != nil {
			w.failed(c, err)
			return
		}
	}
	w.tell(Event{ID: c.ID, Kind: Unlocked})
}

func (w *worker) reach(c command) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for goal := w.rounds + c.Rounds; w.rounds < goal; w.progress.Wait() {
		if w.closed {
			return
		}
	}
	w.tell(Event{ID: c.ID, Kind: Reached})
}

// loop locks and unlocks in Count goroutines.
func (w *worker) loop(c command) {
	var all sync.WaitGroup
	var mu sync.Mutex // guards turns and started
	var turns []Turn
	started := 0
	another := func() bool {
		mu.Lock()
		defer mu.Unlock()
		started++
		return !w.isClosed() && (c.Rounds == 0 || started <= c.Rounds)
	}
	for range max(1, c.Count) {
		all.Go(func() {
			for another() {
				turn, err := w.turn(c)
				if err != nil {
					w.failed(c, err)
					return
				}
				w.count()
				if c.Rounds > 0 {
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

func (w *worker) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

func (w *worker) count() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rounds++
	w.progress.Broadcast()
}

// turn is one round of a loop. The witness watches the round if the command asks for that.
func (w *worker) turn(c command) (Turn, error) {
	ctx, asked := context.Background(), time.Now()
	lease, err := w.locker.Lock(ctx, c.Name, c.options()...)
	if err != nil {
		return Turn{}, err
	}
	turn := Turn{Token: lease.Token(), Owner: lease.Owner(), Asked: asked, Taken: time.Now()}
	if c.Witness {
		err = w.witness(ctx, c.Name, turn.Token)
	}
	time.Sleep(c.Lasting) // a holder does something with its lock
	turn.Freed = time.Now()
	return turn, errors.Join(err, lease.Unlock(ctx))
}
