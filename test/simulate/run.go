package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/simulate/stage"
)

// Stats count what happened in a run.
type Stats struct {
	Simulated time.Duration // of traffic
	Leases    int           // successful calls, nested ones too
	Grants    int           // ownerships that the server gave
	Fair      int           // of these, grants of fair locks
	Turns     int           // Leases of calls that had a turn on the hold of another
	Amid      int           // faults while there could be such turns
	Waited    int           // of these, grants to a ticket that stood in line before: that is contention
	Refused   int           // writes with an old token that the fenced resource refused
	Requests  int
	Calm      int           // grants in calm weather
	Idle      time.Duration // the longest time that a wanted lock was free in calm weather
	Surprise  time.Duration // the same, when the hold ended sooner than the waiters could know
	Faults    map[string]int
}

// Outcome is the result of a run.
type Outcome struct {
	Stats
	Violations []string
	Digest     uint64 // of the whole history
	Tail       string // the end of the history, up to the first violation
}

// Add adds the counts of another run.
func (s *Stats) Add(o Stats) {
	s.Simulated += o.Simulated
	s.Leases += o.Leases
	s.Grants += o.Grants
	s.Turns += o.Turns
	s.Amid += o.Amid
	s.Waited += o.Waited
	s.Fair += o.Fair
	s.Refused += o.Refused
	s.Requests += o.Requests
	s.Calm += o.Calm
	s.Idle = max(s.Idle, o.Idle)
	s.Surprise = max(s.Surprise, o.Surprise)
	if s.Faults == nil {
		s.Faults = make(map[string]int)
	}
	for kind, n := range o.Faults {
		s.Faults[kind] += n
	}
}

func (s Stats) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v simulated, %d ownerships (of %d of fair locks %d had waited in line), %d leases (%d turns on the hold of another call, and %d faults amid such holds), %d requests, %d stale writes refused;"+
		" in calm weather %d grants, the longest idle %v (%v after a lease that ended unforeseen)\nfaults:", s.Simulated.Round(time.Second), s.Grants, s.Fair, s.Waited, s.Leases, s.Turns, s.Amid, s.Requests, s.Refused, s.Calm, s.Idle, s.Surprise)
	for _, kind := range slices.Sorted(maps.Keys(s.Faults)) {
		fmt.Fprintf(&b, " %s %d,", kind, s.Faults[kind])
	}
	return strings.TrimSuffix(b.String(), ",")
}

// Run is one run, from its beginning until nothing of it is left. It must be called in a bubble of
// its own.
func Run(plan Plan) Outcome {
	w := &World{plan: plan, start: time.Now(), faults: make(map[string]int), over: make(chan struct{})}
	w.history = stage.NewHistory(plan.Echo)
	for i := range plan.Names {
		w.names = append(w.names, string(rune('a'+i)))
	}
	w.server = newServer(w)
	w.referee = newReferee(w)
	defer w.server.Close()
	for range plan.Clients {
		w.join()
	}
	if d := plan.Break.Closed; d > 0 {
		w.after(d, func() { w.clients[0].closed = time.Now() })
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.storm()
	}()
	go w.stranger()
	for time.Since(w.start) < plan.Length && !w.failed() {
		time.Sleep(time.Second + 777)
		w.mu.Lock()
		w.referee.watch()
		w.mu.Unlock()
	}
	traffic := time.Since(w.start)
	w.mu.Lock()
	w.ending = true
	w.mu.Unlock()
	close(w.over)
	<-ended
	w.finish()
	w.mu.Lock()
	defer w.mu.Unlock()
	stats := w.referee.stats
	stats.Simulated, stats.Requests, stats.Faults = traffic, w.requests, w.faults
	return Outcome{Stats: stats, Violations: w.referee.violations, Digest: w.history.Sum(), Tail: w.tail}
}

// recovery is the time within which all calls are over once the faults are. The waiters are served
// one after the other, and the holders before them may be gone.
const recovery = 5 * time.Minute

// finish lets the last calls end in peace, closes all clients, and waits until the server has
// forgotten them.
func (w *World) finish() {
	w.lasting.Wait()
	w.shelter(true)
	done := make(chan struct{})
	present := w.here()
	go func() {
		defer close(done)
		for _, c := range present {
			c.actors.Wait()
		}
	}()
	for end := time.Now().Add(recovery); ; {
		time.Sleep(time.Second + 777)
		w.operates() // a loss is noticed only when a client that knew what was lost comes back
		w.mu.Lock()
		w.referee.watch()
		calls := w.underway()
		late := time.Now().After(end) && len(calls) > 0
		if late {
			w.referee.violated(4, "%v after the last fault these calls have not ended: %v", recovery, calls)
		}
		w.mu.Unlock()
		if late {
			break
		}
		select {
		case <-done:
		default:
			continue
		}
		break
	}
	w.mu.Lock()
	w.heals()
	w.mu.Unlock()
	time.Sleep(w.healing() + time.Second)
	for _, c := range present {
		w.mu.Lock()
		c.leaves()
		w.mu.Unlock()
		w.bury(c)
	}
	<-done
	w.vanish()
}

// underway returns the calls that have not returned.
func (w *World) underway() (all []string) {
	for _, c := range w.clients {
		for k := range c.calls {
			all = append(all, fmt.Sprintf("%s of %s by %s since %v", k.op, k.name, c.name, k.began.Sub(w.start)))
		}
	}
	slices.Sort(all)
	return all
}

// isProtocol reports whether this is the key that outlives the locks by months.
func isProtocol(key string) bool { return strings.HasSuffix(key, ":protocol") }

// vanish judges that every key vanishes by itself (5).
func (w *World) vanish() {
	longest := lua.TokenTTL + time.Minute // for what is under way
	if w.long() {
		longest = 5 * time.Hour // twice the longest lease
	}
	time.Sleep(longest)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server.Mini.SetTime(w.server.now())
	keys := slices.DeleteFunc(w.server.Mini.Keys(), isProtocol) // test/faketime waits for its end
	if len(keys) > 0 {
		w.referee.violated(5, "%v after the last client there still are %v", longest, keys)
	}
	for _, channel := range w.server.Subscribed() {
		w.referee.violated(7, "%s is still subscribed to", channel)
	}
}

// join has a new client come.
func (w *World) join() {
	c := w.newClient()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.present = append(w.present, c)
}

// bury ends a client and judges that it leaves nothing behind (7).
func (w *World) bury(c *client) {
	w.mu.Lock()
	began := time.Now()
	w.mu.Unlock()
	if !w.plan.Break.Leaks {
		c.shuts("a Close", c.locker.Close)
	}
	w.mu.Lock()
	since, able := c.link.able()
	if able && since.Before(began.Add(-calmAfter)) && !c.crashed {
		w.leaves(c, "has closed its Locker")
	}
	w.mu.Unlock()
	c.actors.Wait()
	if w.plan.Break.Leaks {
		defer func() { _ = c.locker.Close() }()
	}
	_ = c.rdb.Close()
	time.Sleep(2*time.Second + 777) // a dial in the background tries once a second
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(c.link.conns); n > 0 {
		w.referee.violated(7, "%s is closed and has %d connections", c.name, n)
	}
}

// leaves judges that a closed client has no waiter in line and no subscription.
func (w *World) leaves(c *client, when string) {
	for _, name := range w.names {
		for _, p := range w.server.read(w.referee.locks[name].keys).line {
			if stage.ClientOf(p.ticket) == c.uuid {
				w.referee.violated(7, "%s %s, and %s is still in line for %s", c.name, when, p.ticket, name)
			}
		}
	}
	if n := len(c.link.subscriptions()); n > 0 {
		w.referee.violated(7, "%s %s, and is still subscribed", c.name, when)
	}
}

// verdict returns the text of a violation, with all that is needed to see the violation again. mu
// must be held.
func (w *World) verdict(invariant int, what string) string {
	if w.tail == "" {
		w.tail = w.history.Tail(150)
	}
	return fmt.Sprintf("seed %d: invariant %d: after %v: %s\nreplay it with: make simulate SEEDS=%d",
		w.plan.Seed, invariant, time.Since(w.start), w.history.Short(what), w.plan.Seed)
}

func (w *World) isEnding() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ending
}

// isFair reports whether the weather is calm: nobody may be harmed now.
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

func (w *World) here() []*client {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.present)
}

func (c *client) isClosing() bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.closing || c.crashed
}

func remove[T comparable](list []T, x T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(y T) bool { return y == x })
}
