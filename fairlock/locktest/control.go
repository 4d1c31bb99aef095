package locktest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// Lose has the lock taken away from its holder: by force, as an operator does it. It returns when
// the Lease knows: its Done is closed, its Context has ended and its Err is ErrLost. (The context
// inside Do ends a moment later.) The next in line has the lock then. The Lease may be of any
// Locker on the server, fair or plain. If the code under test keeps its Lease to itself, call
// ForceUnlock with the lock's name on its Locker.
func (l *Locks) Lose(lease *fairlock.Lease) {
	l.tb.Helper()
	ctx, cancel := l.within("Lose")
	defer cancel()
	if err := lease.Err(); err != nil {
		l.tb.Fatalf("locktest: Lose: there is nothing to lose: %v", err)
	}
	locker := l.lockerOf(ctx, lease)
	if locker == nil {
		l.tb.Fatalf("locktest: Lose: the lock %q with token %d is not of this server, or has another prefix", lease.Name(), lease.Token())
	}
	if err := locker.ForceUnlock(ctx, lease.Name()); err != nil {
		l.tb.Fatalf("locktest: Lose: %v", err)
	}
	// A holder that does not listen hears of it when it next asks.
	asked := lease.Extend(ctx, time.Until(lease.Deadline())+time.Second)
	if err := lease.Err(); !errors.Is(err, fairlock.ErrLost) {
		l.tb.Fatalf("locktest: Lose: the lock %q was forced, but its Lease says: %v, %v", lease.Name(), err, asked)
	}
	<-lease.Done()
}

// lockerOf returns the Locker that sees the lease held, or nil.
func (l *Locks) lockerOf(ctx context.Context, lease *fairlock.Lease) fairlock.Interface {
	l.tb.Helper()
	for _, locker := range []fairlock.Interface{l.stranger, l.plain} {
		state, err := locker.Inspect(ctx, lease.Name())
		if err != nil {
			l.tb.Fatalf("locktest: Lose: %v", err)
		}
		// Of calls of one process that pass the lock on, the server may know another.
		if state.Holder != nil && process(state.Holder.Owner) == process(lease.Owner()) {
			return locker
		}
	}
	return nil
}

// process is the part of an owner that all owners of a process have in common.
func process(owner string) string {
	process, _, _ := strings.Cut(owner, ":")
	return process
}

// HoldElsewhere has another process take the lock, which must be free, and hold it until the Lease
// is unlocked or the test ends. For a holder that has died, pass LeaseFor: nobody renews it.
func (l *Locks) HoldElsewhere(name string, options ...fairlock.LockOption) *fairlock.Lease {
	l.tb.Helper()
	ctx, cancel := l.within("HoldElsewhere")
	defer cancel()
	lease, err := l.stranger.TryLock(ctx, name, options...)
	if err != nil {
		l.tb.Fatalf("locktest: HoldElsewhere: %v", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = append(l.held, lease)
	return lease
}

// QueueElsewhere has n calls of another process stand in line for the lock, which somebody must
// hold. It returns when all of them are in line. Each of them unlocks as soon as it has the lock.
func (l *Locks) QueueElsewhere(name string, n int) {
	l.tb.Helper()
	ctx, cancel := l.within("QueueElsewhere")
	defer cancel()
	queued := make(chan error, n) // one of each call: nil, or why it is not in line
	for range n {
		var first sync.Once
		l.calls.Go(func() {
			lease, err := l.stranger.Lock(context.Background(), name, fairlock.OnQueued(func(int) {
				first.Do(func() { queued <- nil })
			}))
			if err == nil {
				_ = lease.Unlock(context.Background())
				err = errors.New("nobody held the lock")
			}
			first.Do(func() { queued <- err })
		})
	}
	for range n {
		select {
		case err := <-queued:
			if err != nil {
				l.tb.Fatalf("locktest: QueueElsewhere: a call for %q is not in line: %v", name, err)
			}
		case <-ctx.Done():
			l.tb.Fatalf("locktest: QueueElsewhere: not all calls for %q are in line after %v", name, patience)
		}
	}
}

// WaitersOf returns the line for a fair lock as it is now. The first is next. For half a second
// after a turn that passed within a process, those who had one can be in it, as in Inspect.
func (l *Locks) WaitersOf(name string) []fairlock.Waiter {
	l.tb.Helper()
	ctx, cancel := l.within("WaitersOf")
	defer cancel()
	state, err := l.stranger.Inspect(ctx, name)
	if err != nil {
		l.tb.Fatalf("locktest: WaitersOf: %v", err)
	}
	return state.Waiters
}

// AwaitWaiters returns the line for a fair lock as soon as at least n calls are in it. It fails if
// that does not happen within 30 s. It is for the beginning of a line: see WaitersOf.
func (l *Locks) AwaitWaiters(name string, n int) []fairlock.Waiter {
	l.tb.Helper()
	ctx, cancel := l.within("AwaitWaiters")
	defer cancel()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		waiters := l.WaitersOf(name)
		if len(waiters) >= n {
			return waiters
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			l.tb.Fatalf("locktest: AwaitWaiters: %d in line for the lock %q after %v, want %d", len(waiters), name, patience, n)
		}
	}
}
