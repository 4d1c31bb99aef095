package majority

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/simulate/stage"
)

// Run is one run, from its beginning until nothing of it is left. It must be called in a bubble of
// its own.
func Run(plan Plan) Outcome {
	w := &World{plan: plan, start: time.Now(), faults: make(map[string]int), over: make(chan struct{})}
	w.history = stage.NewHistory(plan.Echo)
	for i := range plan.Names {
		w.names = append(w.names, string(rune('a'+i)))
	}
	for i := range plan.Nodes {
		w.nodes = append(w.nodes, newNode(w, i))
	}
	defer func() {
		for _, n := range w.nodes {
			n.Close()
		}
	}()
	w.referee = newReferee(w)
	w.aliases = []string{fmt.Sprintf(" of %d nodes: %s", len(w.nodes), w.set()), ""}
	if plan.Seed%2 == 0 { // or the nodes grant nothing for the longest lease
		w.initiates()
	}
	for range plan.Clients {
		w.join(plan.Actors)
	}
	if d := plan.Break.Closed; d > 0 {
		w.after(d, func() { w.present[0].closed = time.Now() })
	}
	ended := make(chan struct{}, 2)
	for _, f := range []func(){w.storm, w.snaps} {
		go func() {
			f()
			ended <- struct{}{}
		}()
	}
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
	<-ended
	w.finish()
	w.mu.Lock()
	defer w.mu.Unlock()
	stats := w.referee.stats
	stats.Simulated, stats.Requests, stats.Faults = traffic, w.requests, w.faults
	return Outcome{Stats: stats, Violations: w.referee.violations, Digest: w.history.Sum(), Tail: w.tail}
}

// initiates has somebody say that the quorum is new.
func (w *World) initiates() {
	c := w.join(0)
	if err := c.locker.Init(context.Background()); err != nil {
		w.referee.objects(4, "Init: %v", err)
	}
	w.mu.Lock()
	w.present = nil
	c.leaves()
	w.mu.Unlock()
	w.bury(c)
}

// recovery is the time within which all calls are over once the faults are. The waiters are served
// one after the other, and the holders before them may be gone.
const recovery = 8 * time.Minute

// finish lets the last calls end in peace, closes all clients, and waits until the nodes have
// forgotten them.
func (w *World) finish() {
	w.lasting.Wait()
	w.shelter(true)
	done := make(chan struct{})
	w.mu.Lock()
	present := slices.Clone(w.present)
	w.mu.Unlock()
	go func() {
		defer close(done)
		for _, c := range present {
			c.actors.Wait()
		}
	}()
	over := func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
	for end := time.Now().Add(recovery); !over(); {
		time.Sleep(time.Second + 777)
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
	}
	time.Sleep(w.heals() + time.Second)
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

// vanish judges that every key vanishes by itself (5), but that of a node.
func (w *World) vanish() {
	// A token's time, by a clock that may be hours behind that of the node that gave it.
	time.Sleep(lua.TokenTTL + time.Minute + 6*time.Hour)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		n.Look()
		keys := slices.DeleteFunc(n.Mini.Keys(), func(key string) bool { return key == prefix+":node" })
		if len(keys) > 0 {
			w.referee.violated(5, "after the last client %s still has %v", n.name, keys)
		}
		for _, channel := range n.Subscribed() {
			w.referee.violated(7, "%s is still subscribed to at %s", channel, n.name)
		}
	}
}

// closesWithin is how long a Close may take: what is under way ends with the client's timeouts, and
// a paused process goes on.
const closesWithin = 4 * time.Minute

// shuts closes a client's Locker in a given way, and judges that the close comes to an end (7). It
// may run in any goroutine. Afterwards nobody is given a Lease: see had.
func (c *client) shuts(how string, f func() error) {
	w := c.w
	w.mu.Lock()
	c.leaves()
	w.mu.Unlock()
	w.history.Note(c.name, "%s begins", how)
	most := closesWithin
	if c.endless {
		most += keepAlive // what is under way ends with its connection
	}
	late := time.AfterFunc(most, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.referee.violated(7, "%s of %s has not come back after %v", how, c.name, most)
		// The close will never return, so without this panic the run would have no end.
		panic(w.referee.violations[len(w.referee.violations)-1] + "\n" + w.tail)
	})
	err := f()
	late.Stop()
	w.history.Note(c.name, "%s is over: %v", how, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.closed.IsZero() {
		c.closed = time.Now()
	}
}

// closes is a Close by user code that the Locker has called. What is left of the client is buried
// later.
func (c *client) closes(where string) {
	if c.w.isFair() {
		return
	}
	c.fault("close by a callback")
	c.shuts("a Close by "+where, c.locker.Close)
}

// leaves notes that the client's Locker begins to close. World.mu must be held.
func (c *client) leaves() {
	if !c.closing {
		c.closing = true
		close(c.leaving)
	}
}

// bury ends a client and judges that it leaves nothing behind (7).
func (w *World) bury(c *client) {
	began := time.Now()
	if !w.plan.Break.Leaks {
		c.shuts("a Close", c.locker.Close)
	}
	w.mu.Lock()
	for _, l := range c.links {
		if since, able := l.able(); able && since.Before(began.Add(-w.calmAfter())) && l.n.lost.Before(began.Add(-w.calmAfter())) {
			w.nothing(l)
		}
	}
	w.mu.Unlock()
	c.actors.Wait()
	if w.plan.Break.Leaks {
		defer func() { _ = c.locker.Close() }()
	}
	for _, rdb := range c.rdbs {
		_ = rdb.Close()
	}
	time.Sleep(2*time.Second + 777) // a dial in the background tries once a second
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range c.links {
		if n := len(l.conns); n > 0 {
			w.referee.violated(7, "%s is closed and has %d connections to %s", c.name, n, l.n.name)
		}
	}
}

// nothing judges that a closed client has no ticket at a node and no subscription.
func (w *World) nothing(l *link) {
	for _, name := range w.names {
		is := l.n.read(keysOf(name))
		for _, p := range is.line {
			if stage.ClientOf(p.ticket) == l.c.uuid && !w.referee.keeps(w.referee.locks[name], p.ticket) {
				w.referee.violated(7, "%s is closed, and %s is still in line for %s at %s", l.c.name, p.ticket, name, l.n.name)
			}
		}
		if stage.ClientOf(is.ticket) == l.c.uuid && is.ticket != "" && !w.referee.keeps(w.referee.locks[name], is.ticket) {
			w.referee.violated(7, "%s is closed, and %s still has the vote of %s for %s", l.c.name, is.ticket, l.n.name, name)
		}
	}
	if n := len(l.subscriptions()); n > 0 {
		w.referee.violated(7, "%s is closed, and is still subscribed at %s", l.c.name, l.n.name)
	}
}

// verdict returns the text of a violation, with all that is needed to see the violation again. mu
// must be held.
func (w *World) verdict(invariant int, what string) string {
	if w.tail == "" {
		w.tail = w.history.Tail(250)
	}
	return fmt.Sprintf("seed %d: invariant %d: after %v: %s\nreplay it with: make simulate SEEDS=%d NODES=%d",
		w.plan.Seed, invariant, time.Since(w.start), w.history.Short(strings.TrimSpace(what)), w.plan.Seed, w.plan.Nodes)
}
