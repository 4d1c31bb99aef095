package simulate

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Plan is all that a run follows from.
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
	Real     *atomic.Int64 // shows the real time (ns), which nobody in a bubble sees
	Echo     func(string)  // is told the history as it happens; may be nil
}

// Break is what a test breaks on purpose, to see that the referee notices.
type Break struct {
	Script  func(verb, source string) string // what the server executes in place of a script
	Message func(payload string) string      // what a subscriber hears in place of a message
	Trust   time.Duration                    // how much longer clients trust than they say
	Closed  time.Duration                    // after it the referee takes the first client's Locker for closed
	Context time.Duration                    // how much later than they do contexts end
	Unlock  func(error) error                // what Unlock says in place of its outcome
	Leaks   bool                             // a Locker is not closed before its end is judged
}

// World is one run: a server, its clients, what is between them, and the referee.
type World struct {
	plan    Plan
	start   time.Time
	history *history

	mu       sync.Mutex // guards what follows, and all that says so
	server   *redisServer
	referee  *referee
	clients  []*client // all there ever were
	made     uint64
	present  []*client // those whose code runs
	aliases  []string
	calmFrom time.Time      // zero: there are faults
	setBack  time.Duration  // how far the server's clock was set back since it was last calm
	lasting  sync.WaitGroup // faults that go on
	era      int            // of the server: between two restarts
	slow     time.Duration
	troubled time.Time // when a fault last touched everybody
	faults   map[string]int
	requests int
	calls    int
	farthest time.Time // that the server's clock ever was
	names    []string
	ending   bool   // no new calls
	tail     string // of the history, when the referee first objected

	over chan struct{} // closed when the traffic ends
}

// draw is a random stream for one thing that happens now to one of the parts. It does not depend on what was drawn before.
func (w *World) draw(parts ...uint64) *rand.Rand {
	sum := uint64(time.Since(w.start)) //nolint:gosec // it is not negative
	for _, part := range parts {
		sum = mix(sum ^ part*0x9e3779b97f4a7c15)
	}
	return rand.New(rand.NewPCG(w.plan.Seed, sum))
}

// mix is the finaliser of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// contents sums up a request, in whatever order its parts are: what a map is asked for has none.
func contents(args []string) (sum uint64) {
	for _, arg := range args {
		h := fnv.New64a()
		_, _ = h.Write([]byte(arg))
		sum += mix(h.Sum64())
	}
	return sum
}

// span is a time between two others.
func span(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}

// after has f done under mu when the time has come. Two such times are the same only by the greatest of chances.
func (w *World) after(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		f()
	})
}

// drag is how much later than usual a slow server answers. mu must be held.
func (w *World) drag(r *rand.Rand) time.Duration {
	if w.slow == 0 {
		return 0
	}
	return time.Duration(r.Int64N(int64(w.slow)))
}

// fault counts and notes one. mu must be held.
func (w *World) fault(kind, format string, args ...any) {
	w.faults[kind]++
	w.history.note("fault", "%s %s", kind, fmt.Sprintf(format, args...))
}

// transcript is a request and its reply for the history.
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
	} else { // the channels that are subscribed to have no order
		args = append(args[:1:1], sorted(args[1:])...)
	}
	answer := strings.ReplaceAll(strings.TrimSuffix(string(reply), "\r\n"), "\r\n", " ")
	if verb == "leave" && len(args) > 9 { // of several tickets, which have no order
		slices.Sort(args[5:])
		answer = fmt.Sprintf("%x", contents(strings.Fields(answer)))
	}
	return strings.Join(args, " ") + " -> " + answer[:min(len(answer), 600)]
}

// long reports whether a run has leases from 100 ms to hours. What a dead client holds for an
// hour would be most of a run: there an operator looks after it.
func (w *World) long() bool { return w.plan.brings(Leases) && w.plan.Seed%10 == 4 }
