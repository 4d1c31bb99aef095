package majority

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/simulate/stage"
)

// Plan is all that determines a run.
type Plan struct {
	Seed    uint64
	Length  time.Duration // of the traffic
	Nodes   int
	Clients int
	Actors  uint64 // goroutines that use locks, in each client
	Names   int    // of locks
	Latency time.Duration
	Longest time.Duration // lease of the quorum
	Apart   bool          // the nodes' clocks are seconds to hours apart
	Herd    bool          // all ask at the same instants
	Calm    bool          // no faults, no operators, nobody closes
	Rewinds bool          // the only fault: all nodes restart with old data
	Misled  bool          // the only fault: names lead to other nodes
	Break   Break
	Echo    func(string) // gets the history as it happens; may be nil
}

// Break is what a test breaks on purpose, to check that the referee notices.
type Break struct {
	Script  func(verb, source string) string // the text that the nodes execute in place of a script
	Message func(payload string) string      // the text that a subscriber hears in place of a message
	Unlock  func(error) error                // what Unlock returns in place of its outcome
	Trust   time.Duration                    // how much longer clients trust than they say
	Context time.Duration                    // for how long a context seems to live after its end
	Late    time.Duration                    // how much later calls return
	Try     time.Duration                    // and tries
	Drift   float64                          // how much faster the nodes' clocks run than they may
	OneRun  bool                             // a node that restarts says the run id that it had
	Leaks   bool                             // a Locker is judged without having been closed
	Nested  bool                             // the contexts of nested calls have ended
	Asks    bool                             // a user's context is asked in a goroutine of its own
	Closed  time.Duration                    // after this time the referee takes one client's Locker for closed
}

// World is one run: the nodes, their clients, the network between them, and the referee.
type World struct {
	plan    Plan
	start   time.Time
	history *stage.History
	names   []string
	nodes   []*node

	mu       sync.Mutex // guards what follows, and whatever else says so
	referee  *referee
	clients  []*client // all clients so far
	present  []*client // the clients whose code runs
	aliases  []string
	calmFrom time.Time      // zero: there are faults
	lasting  sync.WaitGroup // faults that go on
	faults   map[string]int
	requests int
	ending   bool   // no new calls
	tail     string // of the history, when the referee first objected

	over chan struct{} // closed when the traffic ends
}

// prefix is that of the quorum's keys.
const prefix = "quorum"

func (w *World) draw(parts ...uint64) *rand.Rand {
	return stage.Draw(w.plan.Seed, time.Since(w.start), parts...)
}

// after has f run under mu after d. That two such times are equal is next to impossible.
func (w *World) after(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		f()
	})
}

// latency draws how long a frame is under way.
func (w *World) latency(r *rand.Rand) time.Duration {
	return w.plan.Latency/4 + time.Duration(r.Int64N(int64(w.plan.Latency)))
}

// fault counts and notes a fault. mu must be held.
func (w *World) fault(kind, format string, args ...any) {
	w.faults[kind]++
	w.history.Note("fault", "%s %s", kind, fmt.Sprintf(format, args...))
}

// lasts ends a fault after d, whatever happens meanwhile. mu must be held.
func (w *World) lasts(d time.Duration, end func()) {
	w.lasting.Add(1)
	w.after(d, func() {
		end()
		w.lasting.Done()
	})
}

// set is what the nodes are called together.
func (w *World) set() string { return fmt.Sprintf("set of %d", len(w.nodes)) }

// need is how many nodes are a majority.
func (w *World) need() int { return len(w.nodes)/2 + 1 }

// keysOf are the keys of a lock.
func keysOf(name string) lua.Keys {
	keys, err := lua.NewKeys(prefix, name)
	if err != nil {
		panic(err)
	}
	return keys
}

// nameOf is the lock with this record.
func nameOf(record string) string {
	_, name, _ := strings.Cut(record, ":lock:")
	return strings.Trim(name, "{}")
}

func (w *World) isEnding() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ending
}

// isFair reports whether nobody may be harmed now.
func (w *World) isFair() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.plan.Calm || !w.calmFrom.IsZero()
}

// failed reports whether the referee has objected.
func (w *World) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.referee.violations) > 0
}

// wait waits for d and reports whether the traffic still goes on then.
func (w *World) wait(d time.Duration) bool {
	return stage.Pass(d, nil, w.over)
}

func (w *World) byID(id string) *client {
	for _, c := range w.clients {
		if c.uuid == id {
			return c
		}
	}
	return nil
}
