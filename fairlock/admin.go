package fairlock

import (
	"context"
	"iter"
	"time"
)

// Inspect shows a lock as the server sees it. One round trip, and one more for every 500 waiters; a line that changes
// meanwhile is shown as its pages were seen. Nothing is written.
func (l *Locker) Inspect(ctx context.Context, name string) (*State, error) {
	return l.core.Inspect(ctx, name)
}

// List goes through all locks under the Locker's prefix that are held or waited for, in no order, by SCAN: a lock that is
// one or the other all the time is shown once, any other once or not at all. Their waiters are counted, and the first
// is shown. It takes about two round trips for every hundred keys of the database. An error ends it.
func (l *Locker) List(ctx context.Context) iter.Seq2[*State, error] { return l.core.List(ctx) }

// Overhear goes through what the server tells the clients of the locks under the Locker's prefix, or of those named, as
// it happens: each hand-over to another process, each forced hold, each eviction. It is for watching: that a free lock was
// taken, or one handed on within a process, or given back with nobody in line, is told to nobody and not heard. It takes one
// connection, which is made again if it fails. An error ends it, as do ctx and Close; on a cluster it is errors.ErrUnsupported. See [Overheard].
func (l *Locker) Overhear(ctx context.Context, names ...string) iter.Seq2[Overheard, error] {
	return l.core.Overhear(ctx, names...)
}

// ForceUnlock ends the present ownership of a lock, whoever has it: the Leases of its holder are lost at once, or, should
// its process not listen, with their next renewal, and the next in line has the lock. For as long as that takes two may
// believe that they have it; the token tells them apart. Two round trips.
//
//	nil          it was ended
//	ErrNotHeld   nobody had the lock
//	other        the context's, the server's or the connection's: unless the server refused, it may have been ended all the same
func (l *Locker) ForceUnlock(ctx context.Context, name string) error {
	sent := time.Now()
	keys, left, err := l.core.Force(ctx, name)
	if err == nil && left.Grant != nil {
		l.mu.Lock()
		l.grantedInPassing(keys, left.Grant, sent)
		l.mu.Unlock()
	}
	if err == nil && left.More {
		_, err = l.send(ctx, keys, nil)
	}
	if err != nil {
		l.mu.Lock()
		l.hurry(keys) // an answer that was lost may have carried a grant
		l.mu.Unlock()
		return &Error{Op: "force", Name: name, Err: err}
	}
	l.core.Settings.Logger.Warn("fairlock: a lock was forced", "lock", name)
	return nil
}

// Evict takes one waiter out of the line, named by its [Waiter.ID]. Its call returns ErrEvicted, at once or, should its
// process not listen, with its next heartbeat. One round trip for every 500 waiters before it, and one more.
//
//	nil             it was evicted
//	ErrNotWaiting   there is no such waiter, or it was granted the lock meanwhile
//	other           the context's, the server's or the connection's
func (l *Locker) Evict(ctx context.Context, name, waiter string) error {
	evicted, err := l.core.Evict(ctx, name, waiter)
	if err == nil && !evicted {
		err = ErrNotWaiting
	}
	if err != nil {
		return &Error{Op: "evict", Name: name, Err: err}
	}
	return nil
}
