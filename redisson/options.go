package redisson

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/fairlock/locks/internal/engine"
)

// What a Locker uses unless told otherwise: the defaults of Redisson, but for the waiter timeout.
const (
	DefaultWatchdogTimeout     = 30 * time.Second
	DefaultFairLockWaitTimeout = 5 * time.Minute
	DefaultWaiterTimeout       = 3 * time.Second
)

const (
	minWaiterTimeout = 300 * time.Millisecond
	maxWaiterTimeout = 24 * time.Hour
)

// NameMapper is Redisson's: what a lock is called on the server, and back. It must be safe for
// concurrent use. Unmap is also given names that Map never returned: List passes over those for
// which Map does not give the same name again.
type NameMapper interface {
	Map(name string) string
	Unmap(mapped string) string
}

// Option configures a Locker. Only this package makes any.
type Option interface{ apply(*settings) }

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

// settings are what the Options set.
type settings struct {
	engine []engine.Option
	id     string
	after  uint64        // which counter the owners' names begin
	java   time.Duration // Redisson's fairLockWaitTimeout
	ours   time.Duration // how long a waiter of this package stays in line without a refresh
	names  NameMapper    // nil: names are what they are
	err    error
}

func newSettings(options []Option) settings {
	s := settings{id: newID(), java: DefaultFairLockWaitTimeout, ours: DefaultWaiterTimeout}
	for _, o := range options {
		if o == nil {
			s.err = errors.Join(s.err, engine.Invalid("an Option is nil"))
			continue
		}
		o.apply(&s)
	}
	s.engine = append(s.engine, engine.WithID(s.id, s.after))
	return s
}

// newID is a UUID of version 8, by which clients of this package know each other's waiters.
func newID() string {
	id := uuid.New()
	id[6] = id[6]&0x0f | 0x80
	return id.String()
}

// WithWatchdogTimeout is Redisson's lockWatchdogTimeout: how long a lock outlives a holder that no
// longer renews it. It is renewed at a third. Default 30 s, from 100 ms to 366 days. It need not
// equal Java's.
func WithWatchdogTimeout(d time.Duration) Option {
	return option(func(s *settings) { s.engine = append(s.engine, engine.WithLeaseAs("WithWatchdogTimeout", d)) })
}

// WithFairLockWaitTimeout is Redisson's fairLockWaitTimeout, and has to equal Java's: what a waiter
// in Java that called lock() adds to the line, and takes off again when it has the lock. Default 5
// minutes.
func WithFairLockWaitTimeout(d time.Duration) Option {
	return option(func(s *settings) {
		s.java = d
		if d < time.Millisecond {
			s.err = errors.Join(s.err, engine.Invalid("WithFairLockWaitTimeout: %v is less than a millisecond", d))
		}
	})
}

// WithWaiterTimeout sets how long a waiter keeps its place in a line after its process has died. A
// live process refreshes the place three times in that time. Give all Lockers of one line nearly
// the same: a Locker drops the waiters of one with more than twice its own. Behind callers in Java
// the place of a dead waiter lasts until these have gone; if no other Locker looks at the line, for
// up to Java's fairLockWaitTimeout each. Default 3 s, from 300 ms to 24 hours.
func WithWaiterTimeout(d time.Duration) Option {
	return option(func(s *settings) {
		s.ours = d
		if d < minWaiterTimeout || d > maxWaiterTimeout {
			s.err = errors.Join(s.err, engine.Invalid("WithWaiterTimeout: %v is not from %v to %v", d, minWaiterTimeout, maxWaiterTimeout))
		}
	})
}

// WithNameMapper is Redisson's nameMapper, and has to do what Java's does.
func WithNameMapper(names NameMapper) Option {
	return option(func(s *settings) {
		if s.names = names; names == nil {
			s.err = errors.Join(s.err, engine.Invalid("WithNameMapper: the mapper is nil"))
		}
	})
}

// WithID sets the client's id, the first part of its owners' names, as getId() is in Java. It is a
// UUID that no other client has at the same time, in Go or in Java. By default it is a random one,
// of version 8; others take this client's waiters for Java's if it is of another version.
func WithID(id string) Option {
	return option(func(s *settings) {
		parsed, err := uuid.Parse(id)
		if err != nil {
			s.err = errors.Join(s.err, engine.Invalid("WithID: %q is no UUID", id))
			return
		}
		// The client may have had the id before, and left owners behind.
		s.id, s.after = parsed.String(), rand.Uint64N(1<<62)
	})
}

// WithLogger sets where the Locker reports what it cannot tell any caller. Default slog.Default().
func WithLogger(logger *slog.Logger) Option {
	return option(func(s *settings) { s.engine = append(s.engine, engine.WithLogger(logger)) })
}

// WithIdentity sets how a nested call is recognised as the holder's own. Default ByContext;
// ByGoroutine is the identity of Java's threads.
func WithIdentity(identity Identity) Option {
	return option(func(s *settings) { s.engine = append(s.engine, engine.WithIdentity(identity)) })
}

// WithObserver has the Locker tell o what happens. None by default.
func WithObserver(o Observer) Option {
	return option(func(s *settings) { s.engine = append(s.engine, engine.WithObserver(o)) })
}

// LeaseFor gives the call a fixed lease: it ends d after the lock was acquired and is not renewed.
// From 100 ms to 366 days. It ends later if Extend or a nested call asks for that. A nested call
// without LeaseFor puts the lock under a watchdog until it is unlocked.
func LeaseFor(d time.Duration) LockOption { return engine.LeaseFor(d) }

// WaitAtMost bounds the waiting, apart from the context. After d the call returns ErrHeld. It
// returns a *WaitError if the server said nothing, or has yet to confirm a longer lease of a nested
// call. 0 tries once.
func WaitAtMost(d time.Duration) LockOption { return engine.WaitAtMost(d) }

// MaxWaiters makes the call return ErrQueueFull if n or more wait already: in the line of a fair
// lock, Java's included; in this process for a plain one.
func MaxWaiters(n int) LockOption { return engine.MaxWaiters(n) }

// OnQueued makes a call that has to wait call f, in the caller's own goroutine, with the call's
// position: in the line of a fair lock, among this process's waiters for a plain one; 1 is next. f
// is called once. It is called again only if the call joins the line anew, because its lock was
// lost before the call could return, as when the process stood still; and by LockAll in each line.
func OnQueued(f func(position int)) LockOption { return engine.OnQueued(f) }
