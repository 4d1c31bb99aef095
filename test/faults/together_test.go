package faults

import (
	"errors"
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

const many = 100

// askAtOnce makes many calls of a user at the same moment.
func (f *faulty) askAtOnce(u *world.User, options ...fairlock.LockOption) []*world.Wait {
	f.Helper()
	f.Unlocks(u.Locks("another")) // the Locker's first calls would look at the server one after the other
	waits := make([]*world.Wait, many)
	for i := range waits {
		waits[i] = u.Asks(background, "x", options...)
	}
	return waits
}

func TestThoseWhoComeTogetherAreEachInLineOnceThoughTheAnswerToThemAllIsLost(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.Behind(), f.Beside()
		holder := b.Locks("x")
		reply := f.Once(f.First(2), lost)
		waits := f.askAtOnce(a)
		reply.WaitExecuted(f, 1, world.Patience)
		f.Until("all are in line", func() bool { return f.Line("x") == many })
		f.Unlocks(holder)
		f.Pass(waits...)
		f.nobody("x")
	})
}

func TestThoseWhoCameTogetherAndLeftAreNotInLineThoughTheirRequestIsExecutedLate(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.Behind(), f.Beside()
		holder := b.Locks("x")
		var waits []*world.Wait
		execute := f.late(f.First(2), func() { waits = f.askAtOnce(a) })
		for _, w := range waits {
			w.Cancel()
		}
		for _, w := range waits {
			w.Fails()
		}
		f.Must(a.Close()) // which waits for the leaves
		execute()
		f.Unlocks(holder)
		f.nobody("x")
	})
}

func TestThoseWhoGiveUpTogetherLeaveInFewRequestsAlsoIfTheAnswerToThemIsLost(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.Behind(), f.Beside()
		holder := b.Locks("x")
		waits := f.askAtOnce(a)
		f.Until("all are in line", func() bool { return f.Line("x") == many })
		leave := f.Verb("leave")
		before := f.Proxy.Count(leave)
		first := f.Once(leave, faultproxy.HoldRequest())
		waits[0].Cancel()
		first.WaitHit(f, 1, world.Patience)
		reply := f.Once(leave, lost)
		for _, w := range waits[1:] {
			w.Cancel()
		}
		for _, w := range waits {
			w.Fails()
		}
		reply.WaitExecuted(f, 1, world.Patience)
		first.Release()
		f.Until("all have left", func() bool { return f.Line("x") == 0 })
		if n := f.Proxy.Count(leave) - before; n > many/2 {
			f.Errorf("%d leave in %d requests", many, n)
		}
		f.Unlocks(holder)
		f.nobody("x")
	})
}

func TestOfThoseWhoComeTogetherAsManyAreLetInAsTheLineTakes(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.Behind(), f.Beside()
		holder := b.Locks("x")
		shared := f.All(f.First(2), faultproxy.Observe())
		var in []*world.Wait
		refused := 0
		waits := f.askAtOnce(a, fairlock.MaxWaiters(many/4))
		f.Until("all are told", func() bool {
			in, refused = nil, 0
			for _, w := range waits {
				if w.HasReturned() {
					refused++
				} else {
					in = append(in, w)
				}
			}
			return refused >= many-many/4
		})
		for _, w := range waits {
			if w.HasReturned() && !errors.Is(w.Err, fairlock.ErrQueueFull) {
				f.Errorf("%v", w.Err)
			}
		}
		if len(in) != many/4 || f.Line("x") != many/4 || shared.Hits() == 0 {
			f.Errorf("%d wait, %d in line, %d common requests", len(in), f.Line("x"), shared.Hits())
		}
		f.Unlocks(holder)
		f.Pass(in...)
		f.nobody("x")
	})
}
