package majority

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairlock/locks/test/simulate/stage"
)

// storm brings faults for as long as the traffic lasts, in spells with calm weather in between.
func (w *World) storm() {
	r := rand.New(rand.NewPCG(w.plan.Seed, 10))
	if w.plan.Calm {
		w.shelter(true)
		<-w.over
		return
	}
	for !w.isEnding() {
		end := time.Now().Add(stage.Span(r, 2*time.Minute, 5*time.Minute))
		w.shelter(false)
		rare := stage.Span(r, 2*time.Second, 10*time.Second)
		for time.Now().Before(end) && w.wait(stage.Span(r, 1, rare)) {
			w.strike(r)
		}
		w.lasting.Wait()
		w.shelter(true)
		if !w.wait(w.heals() + stage.Span(r, 30*time.Second, 60*time.Second)) {
			return
		}
	}
}

// shelter begins or ends calm weather.
func (w *World) shelter(calm bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calmFrom = (time.Time{}); calm {
		w.calmFrom = time.Now()
		for _, c := range w.clients {
			for _, l := range c.links {
				l.hooked = 0
			}
		}
	}
	w.history.Note("weather", "calm: %v", calm)
}

// snaps takes snapshots of the nodes' data for as long as the traffic lasts.
func (w *World) snaps() {
	for w.wait(11*time.Second + 13) {
		w.mu.Lock()
		for _, n := range w.nodes {
			if !n.down && !w.plan.Calm {
				n.snap()
			}
		}
		w.mu.Unlock()
	}
}

// strike brings one fault. A fault that lasts goes on beside the next one.
func (w *World) strike(r *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.undertakes()
	n := w.nodes[r.IntN(len(w.nodes))]
	switch p := r.IntN(100); {
	case w.plan.Rewinds:
		w.rewind(r)
	case w.plan.Misled:
		w.mislead(r, n)
	case p < 4: // all nodes at once
		w.onAll(r)
	case p < 34:
		w.onNode(r, n)
	case p < 40:
		w.partition(r)
	case p < 78:
		w.onLink(r, n)
	default:
		w.onClient(r)
	}
}

// victim returns a client without a lasting fault, or nil.
func (w *World) victim(r *rand.Rand) *client {
	if len(w.present) == 0 {
		return nil
	}
	c := w.present[r.IntN(len(w.present))]
	if c.busy || c.crashed || c.closing {
		return nil
	}
	return c
}

// length draws how long a fault lasts: often a moment, sometimes a minute.
func length(r *rand.Rand) time.Duration {
	switch r.IntN(4) {
	case 0:
		return stage.Span(r, 10*time.Millisecond, 500*time.Millisecond)
	case 1:
		return stage.Span(r, 15*time.Second, 70*time.Second)
	}
	return stage.Span(r, 500*time.Millisecond, 15*time.Second)
}

func (w *World) onNode(r *rand.Rand, n *node) {
	if n.down {
		return
	}
	p := r.IntN(9)
	if n.misnamed > 0 && p > 2 && p < 8 {
		p = 6
	}
	switch p {
	case 0, 1, 2:
		w.fault("node hangs", "%s", n.name)
		w.lasts(length(r), n.hang())
	case 3:
		w.restart(r, n, "node restarted empty", length(r))
	case 4, 5:
		w.restart(r, n, "node restarted with old data", length(r))
	case 6:
		w.restart(r, n, "node restarted with its data", length(r))
	case 7:
		w.fault("flush", "%s", n.name)
		n.flush()
	case 8:
		d := stage.Span(r, 5*time.Millisecond, time.Second)
		w.fault("slow node", "%s: %v", n.name, d)
		n.slow = d
		n.trouble()
		w.lasts(length(r), func() { n.slow = 0; n.trouble() })
	}
	if by := stage.Span(r, -4*time.Millisecond, 4*time.Millisecond); r.IntN(3) == 0 {
		w.fault("clock step", "%s: %v", n.name, by)
		n.Step(by, func() { n.offset += by })
	}
}

// rewind restarts all nodes at once, so soon that whoever has a lock still trusts it.
func (w *World) rewind(r *rand.Rand) {
	for _, n := range w.nodes {
		if !n.down && n.misnamed == 0 {
			w.restart(r, n, "node restarted with old data", stage.Span(r, 10*time.Millisecond, 500*time.Millisecond))
		}
	}
}

// restart kills a node, which comes back after d.
func (w *World) restart(r *rand.Rand, n *node, what string, d time.Duration) {
	w.fault(what, "%s", n.name)
	n.dies()
	s := -1
	if len(n.snapshots) > 0 {
		s = r.IntN(len(n.snapshots))
	}
	n.begins()
	w.lasts(d, func() {
		switch {
		case what == "node restarted with its data":
			n.lost = time.Now() // the messages under way, and what it knew of subscriptions
		case what == "node restarted empty" || s < 0:
			n.Mini.FlushAll()
			n.loses()
		default:
			w.history.Note("fault", "%s: as it was %v ago", n.name, time.Since(n.snapshots[s].at))
			n.restores(n.snapshots[s])
		}
		n.down = false
		n.trouble()
	})
}

// onAll strikes all nodes at once: no majority keeps what it had.
func (w *World) onAll(r *rand.Rand) {
	what := []string{"all flushed", "all restarted", "all hang"}[r.IntN(3)]
	w.fault(what, "")
	for _, n := range w.nodes {
		switch {
		case n.down, n.misnamed > 0:
		case what == "all flushed":
			n.flush()
		case what == "all hang":
			w.lasts(length(r), n.hang())
		default:
			how := []string{"node restarted empty", "node restarted with old data", "node restarted with its data"}[r.IntN(3)]
			w.restart(r, n, how, length(r))
		}
	}
}

// partition has each client see another majority.
func (w *World) partition(r *rand.Rand) {
	w.fault("partition", "")
	d, turn := length(r), r.IntN(len(w.nodes))
	for _, c := range w.present {
		if l := c.links[(int(c.id)+turn)%len(w.nodes)]; !c.crashed { //nolint:gosec // it is small
			w.lasts(d, l.hold(true, true))
		}
	}
}

func (w *World) onLink(r *rand.Rand, n *node) {
	c := w.victim(r)
	if c == nil {
		return
	}
	l := c.links[n.i]
	switch p := r.IntN(11); {
	case p == 10:
		w.mislead(r, n)
	case p == 0:
		l.hooked = 1 + r.IntN(20)
	case p < 4:
		w.blow(r, l)
	case p < 6:
		if heard := l.subscriptions(); r.IntN(2) == 0 && len(heard) > 0 {
			w.fault("cut subscription", "%s-%s", c.name, n.name)
			l.cut(r, heard...)
			return
		}
		w.fault("cut all", "%s-%s", c.name, n.name)
		l.cut(r, l.conns...)
	default:
		way := r.IntN(3)
		w.fault([]string{"stalled requests", "stalled replies", "stalled network"}[way], "%s-%s", c.name, n.name)
		release, breaks := l.hold(way != 1, way != 0), r.IntN(3) == 0
		w.lasts(length(r), func() {
			if breaks {
				l.cut(w.draw(c.id, uint64(n.i), 11), l.conns...) //nolint:gosec // it is small
			}
			release()
		})
	}
}

// mislead has the names of another node, or of all others, lead to a node: for some or for all. It
// does so to none that may have forgotten which node it is.
func (w *World) mislead(r *rand.Rand, to *node) {
	if to.down || time.Since(to.lost) < w.plan.Longest {
		return
	}
	d, some, one := length(r), r.IntN(2) == 0, r.IntN(2*len(w.nodes))
	for _, c := range w.present {
		if c.crashed || some && r.IntN(2) == 0 {
			continue
		}
		for i, l := range c.links {
			if i == to.i || one < len(w.nodes) && i != one || l.leads != l {
				continue
			}
			w.fault("misled name", "%s: %s to %s", c.name, l.n.name, to.name)
			l.lead(r, c.links[to.i])
			to.misnamed++
			w.lasts(d, func() {
				l.lead(w.draw(c.id, uint64(i), 12), l) //nolint:gosec // it is small
				to.misnamed--
			})
		}
	}
}

// blow makes a link lose and delay for a while.
func (w *World) blow(r *rand.Rand, l *link) {
	p := func(most float64) float64 {
		if r.IntN(2) == 0 {
			return 0
		}
		return r.Float64() * most
	}
	w.fault("weather", "%s-%s", l.c.name, l.n.name)
	l.weather = weather{p(0.15), p(0.15), p(0.2), p(0.15), p(0.4), p(0.3)}
	l.trouble()
	w.lasts(stage.Span(r, 5*time.Second, 60*time.Second), func() { l.weather = weather{}; l.trouble() })
}

func (w *World) onClient(r *rand.Rand) {
	c := w.victim(r)
	if c == nil {
		return
	}
	how := []string{"pause", "pause", "kill", "power loss", "close", "shutdown"}[r.IntN(6)]
	w.fault(how, "%s", c.name)
	if c.busy = true; how == "pause" {
		resume := c.pause()
		w.lasts(length(r), func() { resume(); c.busy = false })
		return
	}
	patience, gap := stage.Span(r, time.Millisecond, 4*time.Second), stage.Span(r, time.Second, 5*time.Second)
	if how == "kill" || how == "power loss" {
		c.crash(how == "power loss")
	}
	w.gives(c, gap, func() {
		if how == "shutdown" {
			c.shuts("a Shutdown", func() error {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				return c.locker.Shutdown(ctx)
			})
		}
	})
}

// undertakes buries the clients that closed themselves, and has others come in their places.
func (w *World) undertakes() {
	for _, c := range w.present {
		if !c.closed.IsZero() && !c.busy && !c.crashed {
			w.gives(c, 2*time.Second, func() {})
		}
	}
}

// gives ends a client once first has returned, and has a new client come.
func (w *World) gives(c *client, gap time.Duration, first func()) {
	if c.busy = true; !c.crashed {
		c.leaves()
	}
	w.present = slices.DeleteFunc(slices.Clone(w.present), func(other *client) bool { return other == c })
	w.lasting.Go(func() {
		first()
		w.bury(c)
		time.Sleep(gap + time.Duration(c.id)*time.Microsecond) //nolint:gosec // who comes at one instant with others is numbered by chance
		w.join(w.plan.Actors)
	})
}
