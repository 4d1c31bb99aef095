package simulate

import (
	"context"
	"math/rand/v2"
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
		for time.Now().Before(end) && w.wait(stage.Span(r, 1, 8*time.Second)) {
			w.strike(r)
		}
		w.lasting.Wait()
		w.operates()
		w.shelter(true)
		if !w.wait(w.healing() + stage.Span(r, 45*time.Second, 90*time.Second)) {
			return
		}
	}
}

// shelter begins or ends calm weather.
func (w *World) shelter(calm bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calmFrom = time.Time{}
	if !calm {
		w.setBack = 0
	} else {
		w.calmFrom = time.Now()
		for _, c := range w.clients {
			c.link.tears, c.link.proxied, c.link.hooked, c.closeAtGrant = 0, 0, 0, false
		}
	}
	w.history.Note("weather", "calm: %v", calm)
}

// wait waits for d and reports whether the traffic still goes on then.
func (w *World) wait(d time.Duration) bool {
	return stage.Pass(d, nil, w.over)
}

// strike brings one fault. A fault that lasts goes on beside the next one.
func (w *World) strike(r *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.undertakes()
	c := w.victim(r)
	if w.others(c, r) {
		return
	}
	switch p := r.IntN(100); {
	case p < 6:
		w.restart(r, r.IntN(2) == 0)
	case p < 9:
		w.fault("flush", "all")
		w.trouble()
		w.server.flush()
		w.referee.loses()
	case p < 16:
		w.steps(r)
	case p < 22:
		w.fault("slow server", "")
		w.slow = stage.Span(r, 20*time.Millisecond, 3*time.Second)
		w.lasts(stage.Span(r, time.Second, 15*time.Second), func() { w.slow = 0; w.trouble() })
	case c == nil:
	case p < 42:
		w.blow(c, r)
	case p < 54:
		w.cuts(c, r)
	case p < 70:
		w.stall(c, r)
	case p < 84:
		d := stage.Span(r, 50*time.Millisecond, 3*time.Second)
		if r.IntN(2) == 0 {
			d = stage.Span(r, time.Second, min(2*max(c.lease, time.Second), time.Minute))
		}
		w.fault("pause", "%s for %v", c.name, d)
		c.busy = true
		resume := c.pause()
		w.lasts(d, func() { resume(); c.busy = false })
	default:
		w.replace(c, r)
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

// lasts ends a fault after d, whatever happens meanwhile. mu must be held.
func (w *World) lasts(d time.Duration, end func()) {
	w.trouble()
	w.lasting.Add(1)
	w.after(d, func() {
		end()
		w.history.Note("fault", "over")
		w.lasting.Done()
	})
}

// trouble notes that a fault affects all clients. mu must be held.
func (w *World) trouble() { w.troubled = time.Now() }

func (w *World) restart(r *rand.Rand, withData bool) {
	if w.server.down {
		return
	}
	what := "restart without data"
	if withData {
		what = "restart with data"
	}
	w.fault(what, "")
	w.trouble()
	w.era++
	w.server.restart(withData)
	if !withData {
		w.referee.loses()
	}
	for _, c := range w.clients {
		for _, conn := range c.link.conns {
			conn.mute, conn.Gone, conn.Channels = true, true, 0
			w.after(w.latency(r), func() { conn.fail(stage.ErrReset) })
		}
	}
	w.server.down = true
	w.lasts(stage.Span(r, 10*time.Millisecond, 4*time.Second), func() { w.server.down = false; w.trouble() })
}

func (w *World) steps(r *rand.Rand) {
	by := stage.Span(r, time.Millisecond, 400*time.Millisecond)
	switch r.IntN(4) {
	case 0:
		by = stage.Span(r, time.Second, 2*time.Minute)
	case 1:
		by = stage.Span(r, 100*time.Millisecond, 5*time.Second)
	}
	if r.IntN(2) == 0 {
		w.setBack += by
		by = -by
	}
	w.fault("clock step", "by %v", by)
	w.trouble()
	w.server.step(by)
	w.referee.steps(by)
}

// blow makes a client's network lose, double and delay for a while.
func (w *World) blow(c *client, r *rand.Rand) {
	p := func() float64 {
		if r.IntN(2) == 0 {
			return 0
		}
		return r.Float64() * 0.15
	}
	w.history.Note("weather", "%s is in for some", c.name)
	c.busy = true
	c.link.weather = weather{p(), p(), p(), 2 * p(), p(), 2 * p(), 2 * p(), 2 * p(), 0}
	if w.plan.brings(Answers) && r.IntN(3) == 0 {
		c.link.weather.refuse = p()
	}
	w.lasts(stage.Span(r, 5*time.Second, 60*time.Second), func() {
		c.link.weather, c.busy = weather{}, false
		c.link.trouble()
	})
}

func (w *World) cuts(c *client, r *rand.Rand) {
	busy, heard := c.link.busy(), c.link.subscriptions()
	switch p := r.IntN(3); {
	case p == 0 && len(heard) > 0:
		w.fault("cut subscription", "of %s", c.name)
		for _, conn := range heard {
			c.link.cut(conn, r)
		}
	case len(busy) > 0:
		w.fault("cut connection", "of %s", c.name)
		c.link.cut(busy[0], r)
	default:
		w.fault("cut all", "of %s", c.name)
		c.link.cutAll(r)
	}
}

// stall stops a client's network without a word, in one direction or in both. Later the network
// goes on or breaks.
func (w *World) stall(c *client, r *rand.Rand) {
	way := r.IntN(3)
	w.fault([]string{"stalled requests", "stalled replies", "stalled network"}[way], "of %s", c.name)
	release := c.link.hold(way != 1, way != 0)
	breaks := r.IntN(3) == 0
	d := stage.Span(r, 10*time.Millisecond, 4*time.Second)
	if r.IntN(2) == 0 {
		d = stage.Span(r, time.Second, 20*time.Second)
	}
	c.busy = true
	w.lasts(d, func() {
		if breaks {
			c.link.cutAll(w.draw(c.id, 11))
		}
		release()
		c.busy = false
	})
}

// replace ends a client in some way, and has a new client come in its place. mu must be held.
func (w *World) replace(c *client, r *rand.Rand) {
	ways := []string{"kill", "power loss", "close", "shutdown"}
	if w.plan.brings(Closes) {
		ways = append(ways, "close twice", "close in a shutdown")
	}
	how := ways[r.IntN(len(ways))]
	patience, gap := stage.Span(r, time.Millisecond, 4*time.Second), stage.Span(r, time.Second, 5*time.Second)
	w.fault(how, "of %s", c.name)
	w.trouble()
	if how == "kill" || how == "power loss" {
		c.crash(how == "power loss")
	}
	shutdown := func() {
		c.shuts("a Shutdown", func() error {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			return c.locker.Shutdown(ctx)
		})
	}
	first := map[string]func(){
		"shutdown":    shutdown,
		"close twice": func() { go c.shuts("a Close beside it", c.locker.Close) },
		"close in a shutdown": func() {
			go shutdown()
			time.Sleep(patience / 3)
		},
	}[how]
	if first == nil {
		first = func() {}
	}
	w.gives(c, first, gap)
}

// others brings one of the faults that a plan may leave out. It returns false if none of them
// struck. mu must be held.
func (w *World) others(c *client, r *rand.Rand) bool {
	switch p := r.IntN(100); {
	case (p < 3 || p > 90 && w.long()) && w.plan.brings(Outages) && c != nil:
		w.outage(r, c)
	case (p < 4 || p > 86 && w.long()) && w.plan.brings(Outages):
		var all []*client
		for _, c := range w.present {
			if !c.busy && !c.crashed && !c.closing {
				all = append(all, c)
			}
		}
		w.outage(r, all...)
	case p < 12 && w.plan.brings(Answers):
		w.spell(r)
	case p < 16 && w.plan.brings(Closes) && c != nil:
		c.closeAtGrant = true
	case p < 22 && w.plan.brings(Proxies) && c != nil:
		c.link.proxied = 1 + r.IntN(4)
	case p < 30 && p >= 22 && (w.plan.brings(Hooks) || w.plan.brings(HookCrashes)) && c != nil:
		c.link.hooked = 1 + r.IntN(20)
	case p < 28 && w.long():
		w.lasting.Go(w.operates)
	default:
		return false
	}
	return true
}

const longestOutage = 4 * time.Minute

// outage puts the server out of reach for minutes. mu must be held.
func (w *World) outage(r *rand.Rand, all ...*client) {
	d := stage.Span(r, 20*time.Second, longestOutage)
	breaks := r.IntN(2) == 0
	for _, c := range all {
		w.fault("outage", "of %s for %v", c.name, d)
		c.busy = true
		release := c.link.hold(true, true)
		w.lasts(d, func() {
			if breaks {
				c.link.cutAll(w.draw(c.id, 12))
			}
			release()
			c.busy = false
		})
	}
}

// operates forces the locks that dead clients hold for longer than a run can wait.
func (w *World) operates() {
	for range 60 {
		names, by := w.stuck()
		if len(names) == 0 {
			return
		}
		for _, name := range names {
			if by == nil {
				break
			}
			w.mu.Lock()
			w.fault("force", "of %s, whose holder is dead", name)
			w.mu.Unlock()
			err := by.locker.ForceUnlock(context.Background(), name)
			w.history.Note(by.name, "forced %s: %v", name, err)
		}
		if !w.wait(time.Second + 331) { // the client that forces may still have network troubles of its own
			return
		}
	}
}

// stuck returns the locks that dead clients hold, and a client that can force them, or nil if none
// can now.
func (w *World) stuck() (names []string, by *client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.names {
		if w.long() && w.referee.abandoned(name) {
			names = append(names, name)
		}
	}
	for _, c := range w.present {
		if _, quiet := c.link.able(); quiet && !c.closing && !c.crashed && c.paused == nil {
			by = c
		}
	}
	return names, by
}

// healing returns how long after the last fault the weather counts as calm.
func (w *World) healing() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return calmAfter + w.setBack
}
