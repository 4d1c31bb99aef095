package world

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

// Wait is a call of Lock.
type Wait struct {
	f      *Faulty
	Name   string
	Cancel context.CancelFunc // cancels the call's context

	done  chan struct{} // closed when the call has returned; what follows is then final
	Lease *fairlock.Lease
	Err   error
	At    time.Time
	Took  time.Duration
}

// InLine returns when the server has n tickets in line.
func (w *Wait) InLine(n int) {
	w.f.Helper()
	w.f.Until("it is in line", func() bool { return w.f.Line(w.Name) == n || w.HasReturned() })
	w.Waits()
}

// HasReturned reports whether the call has returned.
func (w *Wait) HasReturned() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// Waits fails if the call has returned.
func (w *Wait) Waits() {
	w.f.Helper()
	if w.HasReturned() {
		w.f.Fatalf("it did not wait: %v, %v", w.Lease, w.Err)
	}
}

// End returns the call's error, or an error that says that the call does not return.
func (w *Wait) End() error {
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case <-w.done:
		return w.Err
	case <-timer.C:
		return fmt.Errorf("it has not returned after %v; on the server:\n%s", Patience, redistest.Dump(w.f.Direct))
	}
}

// Gets waits for the call and returns its lease.
func (w *Wait) Gets() *fairlock.Lease {
	w.f.Helper()
	if err := w.End(); err != nil {
		w.f.Fatalf("Lock: %v; on the server:\n%s", err, redistest.Dump(w.f.Direct))
	}
	return w.Lease
}

// Fails waits for the call and returns its error.
func (w *Wait) Fails() error {
	w.f.Helper()
	err := w.End()
	if err == nil {
		w.f.Fatalf("Lock of %q succeeded", w.Name)
	}
	return err
}

// PassesOn unlocks as soon as the call has the lock.
func (w *Wait) PassesOn() {
	if err := w.End(); err != nil {
		w.f.Errorf("Lock of %q: %v", w.Name, err)
		return
	}
	w.f.Ends(w.Lease)
	if err := w.Lease.Unlock(background); err != nil {
		w.f.Errorf("Unlock of %q: %v", w.Name, err)
	}
}

// Pass returns when each of the waiters has had the lock and passed it on, in any order.
func (f *Faulty) Pass(waits ...*Wait) {
	f.Helper()
	var all sync.WaitGroup
	for _, w := range waits {
		all.Go(w.PassesOn)
	}
	all.Wait()
}

// Served fails unless the waiters get the lock in this order. Each of them passes the lock on.
func (f *Faulty) Served(waits ...*Wait) {
	f.Helper()
	f.Pass(waits...)
	if !f.Failed() && !slices.IsSortedFunc(waits, func(a, b *Wait) int { return cmp.Compare(a.Lease.Token(), b.Lease.Token()) }) {
		for i, w := range waits {
			f.Logf("number %d came with token %d", i, w.Lease.Token())
		}
		f.Error("the lock was not given in the order in which it was asked for")
	}
}
