package engine

import (
	"context"
	"sync"
	"time"

	"github.com/fairlock/locks/lua"
)

// Leases are the Leases of one LockAll, one for each lock. They are safe for concurrent use, and
// all methods may be called on nil and on the zero Leases, which hold nothing.
type Leases struct {
	_   noCopy
	all []*Lease // in the order of their locks
	ctx context.Context
	end context.CancelCauseFunc
}

// joined puts Leases together. The context carries all their turns, and ends with the first of
// theirs. It does not know the Leases, or nobody would notice that they were dropped.
func joined(ctx context.Context, all []*Lease) *Leases {
	values := lasting(ctx)
	for _, lease := range all {
		values = &carrying{values, lease.share.turn} //nolint:fatcontext // one for each lock
	}
	ended, end := context.WithCancelCause(values)
	c := all[0].share.turn.hold.core
	c.mu.Lock()
	for _, lease := range all {
		lease.share.joint = end
	}
	c.mu.Unlock()
	for _, lease := range all {
		if one := lease.share.ctx; one.Err() != nil { // it ended before end was known
			end(context.Cause(one))
		}
	}
	return &Leases{all: all, ctx: &joint{ended, values}, end: end}
}

// scoped binds all Leases to the calling goroutine and derives the context inside DoAll from ctx.
func (l *Leases) scoped(ctx context.Context) context.Context {
	for _, lease := range l.all {
		ctx = lease.scoped(ctx) //nolint:fatcontext // one for each lock, so that it ends with the first
	}
	return ctx
}

// none reports whether l is nil or the zero Leases.
func (l *Leases) none() bool { return l == nil || len(l.all) == 0 }

// Names are the names of the locks, as the call gave them, in the order in which it got them.
func (l *Leases) Names() (names []string) {
	if l.none() {
		return nil
	}
	for _, lease := range l.all {
		names = append(names, lease.Name())
	}
	return names
}

// Lease is the Lease of the lock with that name, or nil: for its token, or to extend it.
func (l *Leases) Lease(name string) *Lease {
	if l.none() {
		return nil
	}
	core := l.all[0].share.turn.hold.core
	keys, err := core.keys(name)
	if err != nil {
		return nil
	}
	for _, lease := range l.all {
		if lease.share.turn.hold.Keys == keys {
			return lease
		}
	}
	return nil
}

// Token is the fencing token of the lock with that name; 0: it is none of them.
func (l *Leases) Token(name string) int64 { return l.Lease(name).Token() }

// Context has the values of the context with which the locks were acquired, but not its
// cancellation. It is cancelled when the first of the locks is lost (cause ErrLost), when one is
// unlocked (ErrNotHeld), or when the Locker is closed (ErrClosed). Passed on, the context lets
// nested calls re-enter each of the locks.
func (l *Leases) Context() context.Context {
	if l.none() {
		return (*Lease)(nil).Context()
	}
	return l.ctx
}

// Done is closed when Err is no longer nil.
func (l *Leases) Done() <-chan struct{} { return l.Context().Done() }

// Err is nil as long as all locks can be trusted. Then it is that of the first, in their order,
// that cannot.
func (l *Leases) Err() error {
	if l.none() {
		return ErrNotHeld
	}
	for _, lease := range l.all {
		if err := lease.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Deadline is when the trust in the first of the locks ends unless their leases are renewed or
// extended. It is the zero time for nil.
func (l *Leases) Deadline() (first time.Time) {
	if l.none() {
		return first
	}
	for _, lease := range l.all {
		if end := lease.Deadline(); first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}

// Unlock ends all Leases. All locks are released, in one round trip where they are on one server,
// also if one of them is lost. The error joins those of the single Unlocks. Unlock waits no longer
// than one of them does.
func (l *Leases) Unlock(ctx context.Context) error {
	if l.none() {
		return &Error{"unlock", "", ErrNotHeld}
	}
	return l.unlock(ctx, false)
}

// unlock is Unlock, which may be the last of a DoAll.
func (l *Leases) unlock(ctx context.Context, atLast bool) error {
	l.end(ErrNotHeld)
	return unlockAll(ctx, l.all, atLast)
}

// sideBySide calls do for each of several locks, each in a goroutine of its own, and returns when
// all have returned. The first request of each goes out with by, in one write if the locks are on
// one server; by is nil if they are not.
func (c *Core) sideBySide(of []lua.Keys, do func(i int, by *lua.Server)) {
	var callers []*lua.JointCaller
	if len(of) > 1 {
		callers = c.Server.Join(context.Background(), of)
	}
	var all sync.WaitGroup
	for i := range of {
		all.Add(1)
		c.Go(func() {
			defer all.Done()
			if callers == nil {
				do(i, nil)
				return
			}
			defer callers[i].Done()
			do(i, callers[i].Server)
		})
	}
	all.Wait()
}
