package locktest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/locktest"
)

// errBusy is for the customer: come back later.
var errBusy = errors.New("too many are waiting")

// shop is the code under test. It pays an order once, whoever asks for it.
type shop struct {
	locks fairlock.Interface
	bank  func(ctx context.Context, token int64) error
}

// pay waits in a line of at most three.
func (s *shop) pay(ctx context.Context, order string) error {
	err := s.locks.Do(ctx, order, func(ctx context.Context, lease *fairlock.Lease) error {
		return s.bank(ctx, lease.Token())
	}, fairlock.MaxWaiters(3))
	if errors.Is(err, fairlock.ErrQueueFull) {
		return errBusy
	}
	return err
}

// patient is a bank that takes its time.
func patient(ctx context.Context, _ int64) error {
	select {
	case <-time.After(time.Hour):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func TestExampleTheShopHearsThatItsLockIsLostMidway(t *testing.T) {
	locks := locktest.New(t)
	s := &shop{locks, func(ctx context.Context, token int64) error {
		if err := locks.ForceUnlock(t.Context(), "order:42"); err != nil { // by which ctx ends
			t.Error(err)
		}
		return patient(ctx, token) // a bank that looks at its context pays nothing now
	}}
	if err := s.pay(t.Context(), "order:42"); !errors.Is(err, fairlock.ErrLost) {
		t.Errorf("got %v", err)
	}
}

func TestExampleTheShopIsSecondInLine(t *testing.T) {
	locks := locktest.New(t)
	other := locks.HoldElsewhere("order:42")
	locks.QueueElsewhere("order:42", 1)
	paid := make(chan error, 1)
	var token int64
	s := &shop{locks, func(_ context.Context, t int64) error {
		token = t
		return nil
	}}
	go func() { paid <- s.pay(context.Background(), "order:42") }()
	if line := locks.AwaitWaiters("order:42", 2); len(line) != 2 {
		t.Errorf("in line are %+v", line)
	}
	if err := other.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-paid; err != nil || token <= other.Token() {
		t.Errorf("with token %d after %d: %v", token, other.Token(), err)
	}
}

func TestExampleTheShopIsFull(t *testing.T) {
	locks := locktest.New(t)
	locks.HoldElsewhere("order:42")
	locks.QueueElsewhere("order:42", 3)
	s := &shop{locks, patient}
	if err := s.pay(t.Context(), "order:42"); !errors.Is(err, errBusy) {
		t.Errorf("got %v", err)
	}
}

func TestExampleTheServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := locktest.New(t)
		s := &shop{locks, func(context.Context, int64) error { return nil }}
		locks.Server.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := s.pay(ctx, "order:42"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		locks.Server.Resume()
		if err := s.pay(t.Context(), "order:42"); err != nil {
			t.Errorf("back again: %v", err)
		}
	})
}

// A lease of 30 s ends in no time at all.
func TestExampleTimePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := locktest.New(t)
		s := &shop{locks, patient}
		paid := make(chan error, 1)
		go func() { paid <- s.pay(t.Context(), "order:42") }()
		synctest.Wait() // it has the lock, and is at the bank
		locks.Server.Stop()
		time.Sleep(30 * time.Second) // nobody renews the lease
		synctest.Wait()
		select {
		case err := <-paid:
			if !errors.Is(err, fairlock.ErrLost) {
				t.Errorf("got %v", err)
			}
		default:
			t.Error("the shop has not noticed")
		}
		locks.Server.Resume()
		locks.HoldElsewhere("order:42") // and now somebody else may have it
	})
}

// A holder that died: its lease is not renewed, and the next in line has the lock after it.
func TestExampleAnotherProcessIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := locktest.New(t)
		locks.HoldElsewhere("order:42", fairlock.LeaseFor(30*time.Second))
		began := time.Now()
		s := &shop{locks, func(context.Context, int64) error { return nil }}
		if err := s.pay(t.Context(), "order:42"); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < 27*time.Second || waited > 35*time.Second {
			t.Errorf("it waited %v", waited)
		}
	})
}
