package fairlock

import (
	"context"
	"iter"
	"time"

	"github.com/fairlock/locks/lua"
)

// Inspect shows a lock as the server sees it. It takes one round trip, and one more for every 500
// waiters. If the line changes meanwhile, each page of waiters is shown as it was when it was read.
// Inspect changes no lock. But a Locker's first call, whichever it is, takes four more requests and
// may write PREFIX:protocol.
//
// If calls of one process pass the lock on among themselves, the server learns of that late: for
// about half a second at most, the Holder may be the first of them, and up to 64 that had the lock
// may be among the Waiters. The Holder's Token is that of the last of them, so it may be larger
// than that of the Lease.
func (l *Locker) Inspect(ctx context.Context, name string) (*State, error) {
	return l.core.Inspect(ctx, name)
}

// List goes through all locks under the Locker's prefix that are held or waited for, in no order,
// by SCAN. A lock that is held or waited for all the time is shown once; any other is shown once or
// not at all. On a cluster a lock may be missing whose slot moves meanwhile, or whose master is
// replaced. A State counts all waiters and shows the first; it may be as late as that of Inspect.
// List takes about two round trips for every hundred keys of the database. An error ends it.
func (l *Locker) List(ctx context.Context) iter.Seq2[*State, error] { return l.core.List(ctx) }

// Overhear goes through what the server tells the clients of locks, as it happens: each hand-over
// to another process, each forced hold, each eviction. It covers the locks named, or all locks
// under the Locker's prefix if none is named.
//
// Overhear is for watching and does not show everything. The server tells nobody, and Overhear does
// not show, that a free lock was taken, that a lock was handed on within a process, or that a lock
// was given back with nobody in line. A Token may be that of the last of several calls of one
// process that pass the lock on among themselves.
//
// It takes one connection, which is made again if it fails. An error ends it, as do ctx and Close.
// On a cluster the error is errors.ErrUnsupported. See [Overheard].
func (l *Locker) Overhear(ctx context.Context, names ...string) iter.Seq2[Overheard, error] {
	return l.core.Overhear(ctx, names...)
}

// ForceUnlock ends the present ownership of a lock, whoever has it. The next in line then has the
// lock. The Leases of the old holder are lost at once, or with their next renewal if the holder's
// process does not listen. Until then two processes may believe that they have the lock; the
// fencing token tells them apart. Two round trips, and two more each time that the lock passes on
// meanwhile, twenty in all at most.
//
//	nil          the ownership was ended
//	ErrNotHeld   nobody had the lock; or it passed on each time, which the error says
//	other        the context's, the server's or the connection's. Unless the server refused, the
//	             ownership may have been ended all the same
//
// The context of the old holder ends by it, maybe before the answer has come. Pass another one.
func (l *Locker) ForceUnlock(ctx context.Context, name string) error {
	return l.forced(l.core.ForceUnlock(ctx, name, l.handsOn(ctx)))
}

// ForceToken is ForceUnlock of the ownership with that token, as [Locker.Inspect] shows it, and of
// no later one: so a lock that has passed on meanwhile stays with its new holder. One round trip.
// The error is ErrNotHeld if nobody has the lock with that token. Token 0 is that of a lock whose
// data are damaged.
func (l *Locker) ForceToken(ctx context.Context, name string, token int64) error {
	return l.forced(l.core.ForceToken(ctx, name, token, l.handsOn(ctx)))
}

// handsOn returns what handles the answer to a force that is sent now.
func (l *Locker) handsOn(ctx context.Context) func(lua.Keys, lua.Left) {
	sent := time.Now()
	return func(keys lua.Keys, left lua.Left) {
		if left.Grant != nil {
			l.mu.Lock()
			l.grantedInPassing(keys, left.Grant, sent)
			l.mu.Unlock()
		}
		if left.More {
			_, _ = l.send(context.WithoutCancel(ctx), l.core.Server, keys, nil) // else a heartbeat clears the line
		}
	}
}

// forced hurries the waiters after a force that failed: a lost answer may have carried a grant.
func (l *Locker) forced(keys lua.Keys, err error) error {
	if err != nil {
		l.mu.Lock()
		l.hurry(keys.Record())
		l.mu.Unlock()
	}
	return err
}

// Evict takes one waiter, named by its [Waiter.ID], out of the line. The waiting call returns
// ErrEvicted at once, or with its next heartbeat if its process does not listen. One round trip for
// every 500 waiters before this one, and one more.
//
//	nil             the waiter was evicted; or, within half a second, it had the lock by then
//	                from another call of its process, and nothing changes
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
