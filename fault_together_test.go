package fairlock_test

import (
	"errors"
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
)

const many = 100

// crowds is many calls of a user at the same moment.
func (f *faulty) crowds(u *faultUser, options ...fairlock.LockOption) []*faultWait {
	f.Helper()
	f.unlocks(u.locks("another")) // the first calls of all look at the server one after the other
	waits := make([]*faultWait, many)
	for i := range waits {
		waits[i] = u.asks(faultCtx, "x", options...)
	}
	return waits
}

func TestThoseWhoComeTogetherAreEachInLineOnceThoughTheAnswerToThemAllIsLost(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.behind(), f.beside()
		holder := b.locks("x")
		reply := f.once(f.first(2), lost)
		waits := f.crowds(a)
		reply.WaitExecuted(f, 1, faultPatience)
		f.until("all are in line", func() bool { return f.line("x") == many })
		f.unlocks(holder)
		f.pass(waits...)
		f.nobody("x")
	})
}

func TestThoseWhoCameTogetherAndLeftAreNotInLineThoughTheirRequestIsExecutedLate(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.behind(), f.beside()
		holder := b.locks("x")
		var waits []*faultWait
		execute := f.late(f.first(2), func() { waits = f.crowds(a) })
		for _, w := range waits {
			w.cancel()
		}
		for _, w := range waits {
			w.fails()
		}
		f.must(a.Close()) // which waits for the leaves
		execute()
		f.unlocks(holder)
		f.nobody("x")
	})
}

func TestOfThoseWhoComeTogetherAsManyAreLetInAsTheLineTakes(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.behind(), f.beside()
		holder := b.locks("x")
		shared := f.all(f.first(2), faultproxy.Observe())
		var in []*faultWait
		refused := 0
		waits := f.crowds(a, fairlock.MaxWaiters(many / 4))
		f.until("all are told", func() bool {
			in, refused = nil, 0
			for _, w := range waits {
				if w.hasReturned() {
					refused++
				} else {
					in = append(in, w)
				}
			}
			return refused >= many-many/4
		})
		for _, w := range waits {
			if w.hasReturned() && !errors.Is(w.err, fairlock.ErrQueueFull) {
				f.Errorf("%v", w.err)
			}
		}
		if len(in) != many/4 || f.line("x") != many/4 || shared.Hits() == 0 {
			f.Errorf("%d wait, %d in line, %d common requests", len(in), f.line("x"), shared.Hits())
		}
		f.unlocks(holder)
		f.pass(in...)
		f.nobody("x")
	})
}
