package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/internal/engine"
)

// micros is any time up to so many microseconds.
func micros(most int) time.Duration { return time.Duration(rand.IntN(most)) * time.Microsecond }

func TestCallsThatEndAtAnyInstantLeaveNothing(t *testing.T) {
	onBoth(t, func(w *world) {
		for round := range 8 {
			a, b := w.locker(), w.locker()
			var calls sync.WaitGroup
			for i := range 8 {
				calls.Go(func() { w.comesAndGoes([]*Locker{a, b}[i%2]) })
			}
			if round%2 == 0 {
				time.Sleep(micros(20_000))
				w.must(a.Close())
			}
			calls.Wait()
			w.must(a.Close())
			w.must(b.Close())
			w.nothing()
		}
	})
}

// comesAndGoes makes calls that end at any instant: with the lock or with a good reason.
func (w *world) comesAndGoes(l *Locker) {
	for range 6 {
		ctx, cancel := context.WithTimeout(context.Background(), micros(8_000))
		lease, err := l.Lock(ctx, "x", WaitAtMost(micros(7_000)))
		switch {
		case err == nil:
			time.Sleep(micros(300))
			began := time.Now()
			err = lease.Unlock(context.Background())
			if time.Since(began) >= lastWords && engine.IsClosed(l.closing) {
				err = nil // a busy machine: what is unanswered then is not sent again
			}
		case errors.Is(err, ErrHeld), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrClosed):
			err = nil
		}
		if err != nil {
			w.Errorf("%v", err)
		}
		cancel()
	}
}

func TestWhenCloseHasReturnedNoneOfItsCallsIsInLine(t *testing.T) {
	w := realNodes(t, 3)
	a := w.locker()
	lease := w.has(a, "x")
	for range 20 {
		b := w.locker()
		var calls []<-chan outcome
		for range 4 {
			calls = append(calls, w.queues(b, "x"))
		}
		w.must(b.Close())
		for i, rdb := range w.direct {
			if n := rdb.ZCard(t.Context(), "quorum:queue:{x}").Val(); n != 1 {
				t.Errorf("%d others are in line at node %d", n-1, i+1)
			}
		}
		for _, done := range calls {
			w.is(w.ends(done).err, ErrClosed)
		}
	}
	w.unlock(lease)
}

func TestAnUnlockThatNodesRefuseDoesNotSayThatTheLockWasLost(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		lease := h.has(l, "x")
		for _, mini := range h.nodes[:2] {
			mini.SetError("NOPERM you may not")
		}
		if err := lease.Unlock(context.Background()); err == nil || errors.Is(err, ErrLost) {
			h.Errorf("it says %v", err)
		}
		for _, mini := range h.nodes {
			mini.SetError("")
		}
	})
}

// stuck is an Observer that does not come back before the test says so.
type stuck chan struct{}

func (s stuck) Observe(Event) { <-s }

// Close waits for an Observer for a moment. Its subscriptions hear on meanwhile.
func TestWhenCloseHasReturnedNoGrantOfALastMessageIsBeingGivenBack(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		observer := make(stuck)
		defer close(observer)
		l := h.locker(WithObserver(observer))
		lease := h.has(l, "x")
		l.mu.Lock()
		l.listen()
		var message string
		for _, c := range l.calls {
			message = fmt.Sprint("grant 1 1000 1 ", c.ticket, " ", c.Keys.Record())
		}
		l.mu.Unlock()
		if err := lease.Unlock(context.Background()); err != nil {
			h.Fatal(err)
		}
		time.Sleep(time.Second) // the subscriptions are up
		closed := make(chan struct{})
		go func() {
			_ = l.Close()
			close(closed)
		}()
		time.Sleep(100 * time.Millisecond) // no leave is under way
		h.hush(0)
		if n := h.nodes[0].Publish(l.nodes[0].channel, message); n != 1 {
			h.Fatalf("%d hear it", n)
		}
		<-closed
		if !l.idle() {
			h.Error("a leave is under way")
		}
	})
}

func TestARepeatedReleaseOfAnEndedLeaseIsNotClean(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		lease := h.has(l, "x", LeaseFor(3*time.Second))
		for i := range h.nodes {
			h.on(l, i, leaveScript, 3, 0) // sent again after 10 and 20 ms
		}
		time.Sleep(time.Until(lease.Deadline()) - 5*time.Millisecond)
		for _, node := range h.nodes { // their clocks are a little ahead
			node.Del("quorum:lock:{x}")
			node.Del("quorum:queue:{x}")
		}
		if err := lease.Err(); err != nil {
			h.Fatal(err)
		}
		if err := lease.Unlock(context.Background()); !errors.Is(err, ErrLost) {
			h.Errorf("it says %v", err)
		}
	})
}

func TestAReleaseIsNotCleanByTheVoteOfASilentNodeThatMayHaveEnded(t *testing.T) {
	for _, late := range []bool{false, true} {
		inFakeTime(t, 3, func(h *hushed) {
			l := h.locker()
			lease := h.has(l, "x", LeaseFor(3*time.Second))
			h.on(l, 0, leaveScript, 0, 30*time.Millisecond)
			before := 100 * time.Millisecond // an Unlock waits for longer than that for the silent one
			if late {
				before = 5 * time.Millisecond
			}
			time.Sleep(time.Until(lease.Deadline()) - before)
			h.hush(2)
			h.nodes[1].Del("quorum:lock:{x}") // its clock is a little ahead
			h.nodes[1].Del("quorum:queue:{x}")
			if err := lease.Unlock(context.Background()); errors.Is(err, ErrLost) != late {
				h.Errorf("late %v: it says %v", late, err)
			}
			h.answers()
		})
	}
}
