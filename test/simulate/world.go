package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/locks/test/simulate/stage"
)

// Plan is all that determines a run.
type Plan struct {
	Seed     uint64
	Length   time.Duration // of the traffic
	Plain    bool          // locks without a line
	Clients  int
	Actors   uint64 // goroutines that use locks, in each client
	Names    int    // of locks
	Latency  time.Duration
	Calm     bool    // no faults and no trouble at all
	Troubles Trouble // of users, operators and strangers
	Break    Break
	Real     <-chan struct{} // ticks in real time, which code in a bubble cannot see
	Echo     func(string)    // gets the history as it happens; may be nil
}

// Break is what a test breaks on purpose, to check that the referee notices.
type Break struct {
	Script  func(verb, source string) string // the text that the server executes in place of a script
	Message func(payload string) string      // the text that a subscriber hears in place of a message
	Trust   time.Duration                    // how much longer clients trust than they say
	Stop    time.Duration                    // how much longer than their margin users take to stop
	// After this time the referee takes the first client's Locker for closed.
	Closed  time.Duration
	Context time.Duration     // how much later than in truth contexts end for the referee
	Unlock  func(error) error // what Unlock returns in place of its outcome
	Leaks   bool              // a Locker is judged without having been closed
	Nested  bool              // the contexts of nested calls have ended
	Asks    bool              // a user's context is asked in a goroutine of its own
	Hook    bool              // hooks cut releases short alone, and those are not sent again
	Endless bool              // no client has timeouts, and all say that they have some
}

// World is one run: a server, its clients, the network between them, and the referee.
type World struct {
	plan    Plan
	start   time.Time
	history *stage.History

	mu       sync.Mutex // guards what follows, and whatever else says so
	server   *redisServer
	referee  *referee
	clients  []*client // all clients so far
	made     uint64
	present  []*client // the clients whose code runs
	aliases  []string
	calmFrom time.Time      // zero: there are faults
	setBack  time.Duration  // how far the server's clock was set back since the last calm
	lasting  sync.WaitGroup // faults that go on
	era      int            // counts the server's restarts
	slow     time.Duration
	troubled time.Time // when a fault last affected everybody
	faults   map[string]int
	requests int
	calls    int
	farthest time.Time // the largest time that the server's clock has shown
	names    []string
	ending   bool   // no new calls
	tail     string // of the history, when the referee first objected

	over chan struct{} // closed when the traffic ends
}

// draw returns a random stream for one thing that happens now to the given parts. The stream does
// not depend on earlier draws.
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

// drag draws how much later than usual a slow server answers. mu must be held.
func (w *World) drag(r *rand.Rand) time.Duration {
	if w.slow == 0 {
		return 0
	}
	return time.Duration(r.Int64N(int64(w.slow)))
}

// fault counts and notes a fault. mu must be held.
func (w *World) fault(kind, format string, args ...any) {
	w.faults[kind]++
	if w.referee.running() {
		w.referee.stats.Amid++
	}
	w.history.Note("fault", "%s %s", kind, fmt.Sprintf(format, args...))
}

// transcript returns a request and its reply for the history.
func transcript(verb string, args []string, reply []byte) string {
	if verb != "" {
		n, _ := strconv.Atoi(args[2])
		locks := []string{nameOf(args[3])}
		for _, record := range args[4 : 3+n] {
			if verb == "renew" {
				locks = append(locks, nameOf(record))
			}
		}
		args = append([]string{strings.Join(locks, ",")}, args[3+n:]...)
	} else { // subscribed channels have no order
		args = append(args[:1:1], stage.Sorted(args[1:])...)
	}
	answer := strings.ReplaceAll(strings.TrimSuffix(string(reply), "\r\n"), "\r\n", " ")
	if verb == "leave" && len(args) > 9 { // the tickets of one leave have no order
		slices.Sort(args[5:])
		answer = fmt.Sprintf("%x", stage.Contents(strings.Fields(answer)))
	}
	return strings.Join(args, " ") + " -> " + answer[:min(len(answer), 600)]
}

// long reports whether a run has leases from 100 ms to hours. In such a run an operator frees the
// locks of dead clients: an hour's hold would take up most of the run.
func (w *World) long() bool { return w.plan.brings(Leases) && w.plan.Seed%10 == 4 }
