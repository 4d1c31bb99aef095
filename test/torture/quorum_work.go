package torture

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/quorum"
)

// A worker of a quorum uses the same hands on Lockers of package quorum.

const (
	// most is the longest lease of the quorum. A node that forgot grants nothing for as long, and
	// no longer than a lease that it may have forgotten.
	most = leaseTime
	// set is the name of the quorum's set of nodes: each process knows them by its own proxies.
	set = "torture"
	// robbed is a lock whose holders are forced and whose waiters are evicted.
	robbed = "robbed"
)

// elected are the locks of a quorum. The first are used most.
var elected = []string{"a", "b", "c"}

func (w *worker) quorum() *quorum.Locker {
	return quorum.New(w.nodes, quorum.WithSet(set), quorum.WithLongestLease(most), quorum.WithLease(leaseTime),
		quorum.WithObserver(w), quorum.WithLogger(w.logger()))
}

// elect starts the hands of a quorum.
func (w *worker) elect() error {
	for i := range voters + 2 {
		h, err := w.newHand(i)
		if err != nil {
			return err
		}
		work := h.votes
		switch i {
		case voters:
			work = (&janitor{*h}).work
		case voters + 1:
			work = h.robs
		}
		w.hands.Go(func() {
			defer h.desk.conn.Close()
			work()
		})
	}
	return nil
}

func (h *hand) votes() {
	for !h.over() {
		h.does(h.vote())
		h.pause(time.Millisecond)
	}
}

// vote decides what to do next.
func (h *hand) vote() plan {
	p := plan{lock: elected[min(h.random.IntN(len(elected)), h.random.IntN(len(elected)))], how: h.manner()}
	switch {
	case h.chance(8):
		p.lock = robbed
	case h.chance(40):
		p.lock, p.how = elected[0], waits
	}
	if h.chance(10) {
		p.fixed = h.between(100*time.Millisecond, leaseTime)
	}
	switch luck := h.random.Float64() * 100; {
	case luck < 4 && p.fixed > 0 && p.how != does:
		p.stay, p.sleeps = p.fixed+p.fixed/2, true
	case luck < 0.3: // for some renewals
		p.stay = h.between(400*time.Millisecond, 1200*time.Millisecond)
	case luck < 3:
		p.stay = h.between(10*time.Millisecond, 60*time.Millisecond)
	default:
		p.stay = h.between(0, 2*time.Millisecond)
	}
	p = h.finish(p)
	p.locker = h.desks[h.number%desks].Load()
	return p
}

// robs ends the holds of others, and takes waiters out of the line.
func (h *hand) robs() {
	for !h.over() {
		h.pause(time.Second)
		l := h.desks[steadyDesk].Load().Interface.(*quorum.Locker)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		state, err := l.Inspect(ctx, robbed)
		switch {
		case err != nil:
		case state.Holder != nil && h.chance(60):
			h.robbery("ForceUnlock", func() error { return l.ForceUnlock(ctx, robbed) })
		case len(state.Waiters) > 0:
			waiter := state.Waiters[h.random.IntN(len(state.Waiters))].ID
			h.robbery("Evict", func() error { return l.Evict(ctx, robbed, waiter) })
		}
		cancel()
	}
}

func (h *hand) robbery(how string, f func() error) {
	op := int(h.ops.Add(1))
	h.journal.note(event{Kind: takes, Op: op, Lock: robbed, How: how})
	err := f()
	if errors.Is(err, fairlock.ErrNotHeld) || errors.Is(err, fairlock.ErrNotWaiting) || errors.Is(err, quorum.ErrNotShown) {
		err = nil // it ended meanwhile
	}
	h.journal.note(event{Kind: took, Op: op, Lock: robbed, How: how, Why: why(err)})
}
