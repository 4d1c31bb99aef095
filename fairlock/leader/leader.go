// Package leader runs a function on at most one of many instances: on the one that has the lock.
//
//	err := leader.Run(ctx, locker, "mail", func(ctx context.Context, lease *fairlock.Lease) error {
//		return send(ctx, lease.Token()) // ctx ends when this instance no longer leads
//	})
//
// Every instance calls [Run] with the same name. One of them leads, and the others wait in line as
// its followers. The next follower leads half a round trip after the leader resigns. If the leader
// crashes, the next one leads when the lease is over: see [fairlock.WithLease].
//
// No two instances lead at once, under the assumptions that the lock makes; what the leader writes
// should carry the token all the same, as docs/fencing.md says. Who leads, since when, and who
// follows is what [fairlock.Locker.Inspect] and the program's "fairlock show" tell.
package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/internal/engine"
)

// Func is what the leader does. Its context ends with that of Run, and with cause
// [fairlock.ErrLost] when the instance no longer leads. Func has to return soon then. Run waits for
// it, and another instance may soon lead.
type Func func(ctx context.Context, lease *fairlock.Lease) error

// Option configures Run.
type Option func(*settings)

type settings struct {
	onElected func(*fairlock.Lease)
	onLost    func(error)
	log       *slog.Logger
	lock      []fairlock.LockOption
}

// OnElected has Run call f each time when this instance begins to lead, before the Func. If the
// leadership ends before f returns, the Func is not called in that term.
func OnElected(f func(lease *fairlock.Lease)) Option {
	return func(s *settings) { s.onElected = f }
}

// OnLost has Run call f each time when the leadership was lost, after the Func has returned and
// before this instance stands in line again. err says why, and matches [fairlock.ErrLost]. f is not
// called when the instance resigns. What has to happen at every end of a leadership belongs into
// the Func.
func OnLost(f func(err error)) Option {
	return func(s *settings) { s.onLost = f }
}

// WithLogger sets where Run reports that it could not stand in line, and why. Default
// slog.Default(). What else there is to know, the hooks are told.
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) { s.log = logger }
}

// WithLock sets options of the calls that wait in line, such as [fairlock.Note] with the name of
// the host, [fairlock.OnQueued] or [fairlock.WithReplicas]. Do not use [fairlock.WithOwner], which
// makes leaders of all who name the same owner, nor [fairlock.LeaseFor], after which every leader
// has lost.
func WithLock(options ...fairlock.LockOption) Option {
	return func(s *settings) { s.lock = append(s.lock, options...) }
}

// Run waits in line for the lock called name and calls f while it has the lock. All calls, in this
// process or any other, that use the same name and Lockers of the same kind and prefix stand for
// the same leadership.
//
// When f returns, the instance resigns: the next in line leads at once, and Run returns what f
// returned, joined with the error of a resignation that the server has not confirmed. To stand for
// election again after that is the caller's decision, a loop around Run.
//
// When the leadership is lost, f's context ends. Run waits until f has returned, whatever it
// returns, calls OnLost, and goes back to the end of the line.
//
// When ctx ends, Run waits for f, resigns, and returns what f returned. If the instance was not
// leading, the error wraps the context's.
//
// The end of a call in line ends nothing, whatever its error, an eviction included: Run says so in
// the log and stands in line again, at least every 5 s. Run gives up only where that is of no use:
// with [fairlock.ErrInvalid] or [fairlock.ErrClosed].
//
// f and the hooks are called in the caller's goroutine, one at a time, with no mutex held. If f or
// OnElected panics, the instance resigns first; the panic is the caller's.
func Run(ctx context.Context, locker fairlock.Interface, name string, f Func, options ...Option) error {
	c, err := stand(ctx, locker, name, f, options)
	if err != nil {
		return err
	}
	for {
		term := c.serve(ctx)
		switch {
		case term.lost != nil:
			c.onLost(term.lost)
			if engine.HasEnded(ctx) {
				return errors.Join(term.err, term.lost)
			}
		case term.led || engine.HasEnded(ctx) || final(term.err):
			return term.err
		default:
			pause := c.backoff.next()
			c.log.Warn("leader: cannot stand in line, trying again", "name", name, "in", pause, "error", term.err)
			wait(ctx, pause)
		}
	}
}

// candidate is an instance in a call of Run.
type candidate struct {
	settings
	locker  fairlock.Interface
	name    string
	f       Func
	backoff backoff
}

func stand(ctx context.Context, locker fairlock.Interface, name string, f Func, options []Option) (*candidate, error) {
	c := &candidate{
		locker: locker, name: name, f: f,
		settings: settings{onElected: func(*fairlock.Lease) {}, onLost: func(error) {}, log: slog.Default()},
	}
	for _, option := range options {
		if option == nil {
			return nil, c.invalid("an option is nil")
		}
		option(&c.settings)
	}
	switch {
	case ctx == nil:
		return nil, c.invalid("the context is nil")
	case locker == nil:
		return nil, c.invalid("the Locker is nil")
	case f == nil || c.onElected == nil || c.onLost == nil:
		return nil, c.invalid("a function is nil")
	case c.log == nil:
		return nil, c.invalid("the logger is nil")
	}
	return c, nil
}

func (c *candidate) invalid(what string) error {
	return fmt.Errorf("leader: %q: %w: %s", c.name, fairlock.ErrInvalid, what)
}

// term is what became of standing in line once.
type term struct {
	led  bool
	lost error // why it does not lead any more; nil if it resigned
	err  error // of the line, the Func or the release
}

// serve waits in line and leads once.
func (c *candidate) serve(ctx context.Context) (t term) {
	var led time.Time // until when it led as the Func returned; zero: it had lost
	var gone error    // why it did not lead any more as OnElected returned
	released := c.locker.Do(ctx, c.name, func(ctx context.Context, lease *fairlock.Lease) error {
		c.backoff, t.led = 0, true
		c.onElected(lease)
		if gone = lease.Err(); gone == nil { // the hook may have taken long; another may lead
			t.err = c.f(ctx, lease)
		}
		if lease.Err() == nil {
			led = lease.Deadline()
		}
		return nil
	}, c.lock...)
	ended := !led.IsZero() && time.Now().After(led) // a resignation that came late, and no loss
	switch {
	case t.led && errors.Is(released, fairlock.ErrLost) && !ended:
		t.lost = released
	case gone != nil && released == nil: // the hook itself has unlocked
		t.err = gone
	case t.err == nil:
		t.err = released
	case released != nil:
		t.err = errors.Join(t.err, released)
	}
	return t
}

// final reports whether the next attempt would fail as this one did.
func final(err error) bool {
	return errors.Is(err, fairlock.ErrInvalid) || errors.Is(err, fairlock.ErrClosed)
}

// backoff is the pause before the next attempt: 100 ms, doubling up to 5 s.
type backoff time.Duration

func (b *backoff) next() time.Duration {
	*b = min(max(2**b, backoff(100*time.Millisecond)), backoff(5*time.Second))
	return time.Duration(*b)
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
