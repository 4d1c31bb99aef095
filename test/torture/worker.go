package torture

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/test/workers"
)

// hands is how many goroutines of a worker use the locks that all workers share. The other
// goroutines do other things with Lockers.
const (
	hands  = 5
	others = 5
)

// voters is how many goroutines of a worker use the locks of a quorum.
const voters = 16

// Main does nothing, unless this process is a worker of a torture. A worker works until its
// standard input ends, and exits.
func Main() {
	workers.Play(environment, func(told string) error {
		var o orders
		if err := json.Unmarshal([]byte(told), &o); err != nil {
			return err
		}
		return obey(o, os.Stdin)
	})
}

// worker is the worker's side, in its own process.
type worker struct {
	orders
	journal *journal
	logs    *os.File
	rdb     *redis.Client
	nodes   []redis.UniversalClient // of a quorum, instead of rdb
	desks   [desks]atomic.Pointer[locker]
	lockers atomic.Int64   // opened so far
	quit    chan struct{}  // closed when no more calls are to be made
	ops     atomic.Int64   // calls so far
	playing atomic.Int64   // callbacks that misbehave now
	hands   sync.WaitGroup // all goroutines that use Lockers
}

// obey works until in ends. Calls that wait then still get their time to end. In the end nothing
// may be left.
func obey(o orders, in io.Reader) error {
	j, err := openJournal(o.Journal)
	if err != nil {
		return err
	}
	w := &worker{orders: o, journal: j, quit: make(chan struct{})}
	if w.logs, err = openLogs(o); err != nil {
		return err
	}
	redis.SetLogger(silent{}) // it is no news here that a server is away
	if o.Nodes == nil {
		w.rdb = w.client(o.Addr)
	}
	for _, addr := range o.Nodes {
		w.nodes = append(w.nodes, w.client(addr))
	}
	for place := range desks {
		w.open(place)
	}
	beating := make(chan struct{})
	var heart sync.WaitGroup
	heart.Go(func() { w.beats(beating) })
	if err := w.employ(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	close(w.quit)
	w.hands.Wait()
	for place := range desks {
		err = errors.Join(err, w.desks[place].Load().Close())
	}
	close(beating)
	heart.Wait()
	for w.playing.Load() > 0 {
		time.Sleep(pulse)
	}
	if w.rdb != nil {
		err = errors.Join(err, w.rdb.Close())
	}
	for _, rdb := range w.nodes {
		err = errors.Join(err, rdb.Close())
	}
	err = errors.Join(err, goleak.Find())
	if err == nil {
		w.journal.note(event{Kind: ended})
	}
	return err
}

func (w *worker) client(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: w.Timeout, ContextTimeoutEnabled: w.Obeys})
}

// employ starts the hands, each with its own work.
func (w *worker) employ() error {
	if w.nodes != nil {
		return w.elect()
	}
	for i := range hands + others {
		h, err := w.newHand(i)
		if err != nil {
			return err
		}
		work := h.work
		switch i - hands {
		case 0:
			work = (&janitor{*h}).work
		case 1:
			work = h.keeps
		case 2, 3, 4:
			work = h.lends
		}
		w.hands.Go(func() {
			defer h.desk.conn.Close()
			work()
		})
	}
	return nil
}

// over reports whether no more calls are to be made.
func (w *worker) over() bool {
	select {
	case <-w.quit:
		return true
	default:
		return false
	}
}

// silent is a logger.
type silent struct{}

// Printf drops what it is told.
func (silent) Printf(context.Context, string, ...any) {}
