package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/reentrant"
)

// hands is how many goroutines of a worker use locks.
const hands = 5

// Main does nothing, unless this process is a worker of a torture: then it works until standard input ends, and exits.
// TestMain calls it before anything else.
func Main() {
	told := os.Getenv(environment)
	if told == "" {
		return
	}
	var o orders
	err := json.Unmarshal([]byte(told), &o)
	if err == nil {
		err = obey(o, os.Stdin)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// worker is the process's side.
type worker struct {
	orders
	journal *journal
	rdb     *redis.Client
	fair    *fairlock.Locker
	plain   *reentrant.Locker
	quit    chan struct{} // closed when no more calls are to be made
	ops     atomic.Int64  // calls so far
	hands   sync.WaitGroup
}

// obey works until in ends; what is waited for then is waited for still. In the end nothing may be left.
func obey(o orders, in io.Reader) error {
	j, err := openJournal(o.Journal)
	if err != nil {
		return err
	}
	logs, err := os.OpenFile(o.Journal+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	redis.SetLogger(silent{}) // that a server is away is no news here
	w := &worker{orders: o, journal: j, quit: make(chan struct{})}
	w.rdb = redis.NewClient(&redis.Options{Addr: o.Addr, ReadTimeout: o.Timeout, ContextTimeoutEnabled: o.Obeys})
	options := []fairlock.Option{
		fairlock.WithLease(leaseTime), fairlock.WithObserver(w), fairlock.WithLogger(slog.New(slog.NewTextHandler(logs, nil))),
	}
	w.fair, w.plain = fairlock.New(w.rdb, options...), reentrant.New(w.rdb, options...)
	for i := range hands {
		h := &hand{worker: w, random: rand.New(rand.NewPCG(o.Seed, uint64(i)))}
		if h.desk, err = openDesk(o.Resource); err != nil {
			return err
		}
		w.hands.Go(func() {
			defer h.desk.conn.Close()
			h.work()
		})
	}
	_, err = io.Copy(io.Discard, in)
	close(w.quit)
	w.hands.Wait()
	err = errors.Join(err, w.fair.Close(), w.plain.Close(), w.rdb.Close(), goleak.Find())
	if err == nil {
		w.journal.note(event{Kind: ended})
	}
	return err
}

// of is the Locker of a lock.
func (w *worker) of(lock string) fairlock.Interface {
	if lock == plain {
		return w.plain
	}
	return w.fair
}

// silent is a logger.
type silent struct{}

// Printf drops what it is told.
func (silent) Printf(context.Context, string, ...any) {}

// Observe notes what tells later why somebody was passed over.
func (w *worker) Observe(e fairlock.Event) {
	switch e.Kind {
	case fairlock.Reconnected:
		w.journal.note(event{Kind: again})
	case fairlock.PassedOver:
		w.journal.note(event{Kind: passed, Lock: e.Name, Owner: e.Owner})
	default:
	}
}
