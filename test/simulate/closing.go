package simulate

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/simulate/stage"
)

// closesWithin is how long a Close may take: what is under way ends with the client's timeouts, and
// a paused process goes on.
const closesWithin = 3 * time.Minute

// mayClose is how long a Close of the client may take. Without timeouts what is under way ends with
// an outage, or with its connection.
func (c *client) mayClose() time.Duration {
	if c.endless {
		return closesWithin + max(longestOutage, keepAlive)
	}
	return closesWithin
}

// shuts closes a client's Locker in a given way, and judges that the close comes to an end (7). It
// may run in any goroutine. Afterwards nobody is given a Lease, and no context lives: see believe
// and outlives.
func (c *client) shuts(how string, f func() error) {
	w := c.w
	w.mu.Lock()
	c.leaves()
	w.history.Note(c.name, "%s begins", how)
	w.mu.Unlock()
	most := c.mayClose()
	late := time.AfterFunc(most, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.referee.violated(7, "%s of %s has not come back after %v", how, c.name, most)
		// The close will never return, so without this panic the run would have no end.
		panic(w.referee.violations[len(w.referee.violations)-1] + "\n" + w.tail)
	})
	err := f()
	late.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history.Note(c.name, "%s is over: %v", how, err)
	if c.closed.IsZero() {
		c.closed = time.Now()
	}
}

// leaves notes that the client's Locker begins to close. World.mu must be held.
func (c *client) leaves() {
	if !c.closing {
		c.closing = true
		close(c.leaving)
	}
}

// closes is a Close by user code that the Locker has called. What is left of the client is buried
// later.
func (c *client) closes(where string) {
	if c.w.isFair() {
		return
	}
	c.fault("close by a callback", "%s", where)
	c.shuts("a Close by "+where, c.locker.Close)
}

// undertakes buries the clients that closed themselves, and has others come in their places. mu
// must be held.
func (w *World) undertakes() {
	for _, c := range w.present {
		if c.closing && !c.closed.IsZero() && !c.busy && !c.crashed {
			w.gives(c, func() {}, 2*time.Second)
		}
	}
}

// closesAt closes a client at about the instant at which it hears of its next grant. mu must be
// held.
func (l *link) closesAt(payload string, d time.Duration) {
	w, c := l.w, l.owner
	if !c.closeAtGrant || !strings.HasPrefix(payload, "grant ") {
		return
	}
	c.closeAtGrant = false
	r := w.draw(c.id, stage.Contents([]string{payload}), 23)
	// Not at the instant itself: chance would decide which of the two comes first.
	w.after(d+stage.Span(r, 1, 300*time.Microsecond)-min(d-1, 100*time.Microsecond), func() {
		if c.busy || c.closing || c.crashed || w.ending || !w.calmFrom.IsZero() {
			return
		}
		w.fault("close at a grant", "of %s", c.name)
		w.trouble()
		w.gives(c, func() {}, time.Second)
	})
}

// gives ends a client once first has returned, and has a new client come. mu must be held.
func (w *World) gives(c *client, first func(), gap time.Duration) {
	c.busy = true
	if !c.crashed {
		c.leaves()
	}
	c.link.trouble()
	w.present = remove(w.present, c)
	w.lasting.Go(func() {
		first()
		w.bury(c)
		time.Sleep(gap + time.Duration(c.id)*time.Microsecond) //nolint:gosec // who comes at one instant with others is numbered by chance
		w.join()
	})
}

// had judges a Lease that a call returned after its Locker was closed (7).
func (r *referee) had(b *belief) {
	if closed := b.by.closed; !closed.IsZero() && time.Since(closed) > stage.AtOnce {
		r.violated(7, "%s: %s is given token %d, and its Locker is closed since %v", b.lk.name, b.by.name, b.token, time.Since(closed))
	}
}

// isTurnedAway judges that a closed or closing Locker gives no lock to a caller without one (7).
func (a *actor) isTurnedAway() {
	if !a.w.plan.brings(Closes) || !a.sleep(time.Millisecond) {
		return
	}
	lease, err := a.c.locker.TryLock(context.Background(), a.w.names[0])
	if lease == nil && errors.Is(err, fairlock.ErrClosed) {
		return
	}
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.referee.violated(7, "%s closes, and says %v to somebody who asks for a lock, and holds none", a.c.name, err)
}
