// Package cronlock has wrappers for the jobs of robfig/cron v3, for a program that runs on several
// hosts: [SkipIfRunningElsewhere] and [DelayIfRunningElsewhere] do over all hosts what cron's own
// SkipIfStillRunning and DelayIfStillRunning do in one process.
//
//	once, err := cronlock.SkipIfRunningElsewhere(ctx, locker, "invoices", time.Second, logger)
//	...
//	c.AddJob("0 7 * * *", cron.NewChain(once).Then(cronlock.Job(send)))
//
// cron's jobs have no context, so they cannot hear that their lock is lost; a [Job] can.
package cronlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/fairlock/locks/fairlock"
)

// Job is a cron.Job that knows the lock under which it runs. Its context ends with that of the
// wrapper, and with cause fairlock.ErrLost when the lock is lost.
//
// The wrapper has to be the last of its chain, next to the Job. A Job that runs without one gets a
// context that has ended, and no Lease (nil).
type Job func(ctx context.Context, lease *fairlock.Lease)

// Run runs the job without a lock. A wrapper of this package does not call it.
func (j Job) Run() {
	var none *fairlock.Lease
	j(none.Context(), none)
}

// SkipIfRunningElsewhere returns a wrapper whose jobs skip a run if another run has the lock, on
// this host or another. All hosts give the job the same name. Skips are logged at Info level, with
// who has the lock, and at Error level if the reason is another.
//
// The lock is held while the job runs, and at least for the time atLeast. A host whose clock is
// behind asks later than the others, and would run a short job once more if that was already done.
// So atLeast has to be longer than the clocks differ, and than a host is late; a second does with
// NTP. It has to be shorter than the time between runs, or the next one is skipped. Until then the
// run counts as running, also for the context of cron's Stop. Close of the Locker gives the lock
// back before: call it when that context is done.
//
// When ctx ends, the contexts of Jobs end, and no further run begins. The options are for each
// run's lock, for example fairlock.Note with the name of the host. Do not use fairlock.WithOwner,
// which lets all who name the same owner in. An error says what makes no sense, and is a
// [fairlock.ErrInvalid].
func SkipIfRunningElsewhere(ctx context.Context, locker fairlock.Interface, name string, atLeast time.Duration, logger cron.Logger, options ...fairlock.LockOption) (cron.JobWrapper, error) {
	options = append(slices.Clip(options), fairlock.WaitAtMost(0)) // not into the caller's array
	return newWrapper(&wrapper{ctx, locker, name, atLeast, logger, options})
}

// DelayIfRunningElsewhere returns a wrapper whose jobs wait until no other run has the lock, on
// this host or another, in the order in which they came (with a plain Locker in no order). So every
// host runs the job, one host at a time. A run after a delay of more than a minute has the delay
// logged at Info level.
//
// When ctx ends, those that wait give up, which is logged at Error level. Else it is as with
// SkipIfRunningElsewhere; fairlock.WaitAtMost and fairlock.MaxWaiters bound the waiting.
func DelayIfRunningElsewhere(ctx context.Context, locker fairlock.Interface, name string, logger cron.Logger, options ...fairlock.LockOption) (cron.JobWrapper, error) {
	return newWrapper(&wrapper{ctx, locker, name, 0, logger, options})
}

// wrapper is what the jobs of one lock have in common.
type wrapper struct {
	ctx     context.Context
	locker  fairlock.Interface
	name    string
	atLeast time.Duration
	log     cron.Logger
	options []fairlock.LockOption
}

func newWrapper(w *wrapper) (cron.JobWrapper, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	return w.wrap, nil
}

func (w *wrapper) check() error {
	switch {
	case w.ctx == nil:
		return w.invalid("the context is nil")
	case w.locker == nil:
		return w.invalid("the Locker is nil")
	case w.log == nil:
		return w.invalid("the logger is nil")
	case w.atLeast < 0:
		return w.invalid("atLeast is negative")
	}
	// A call whose context has ended sends nothing, and says what is wrong with its options.
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.locker.Lock(ended, w.name, w.options...); errors.Is(err, fairlock.ErrInvalid) {
		return fmt.Errorf("cronlock: %w", err)
	}
	return nil
}

func (w *wrapper) invalid(what string) error {
	return fmt.Errorf("cronlock: %q: %w: %s", w.name, fairlock.ErrInvalid, what)
}

func (w *wrapper) wrap(j cron.Job) cron.Job { return cron.FuncJob(func() { w.run(j) }) }

// run does one run of the job.
func (w *wrapper) run(j cron.Job) {
	due, ran := time.Now(), false
	err := w.locker.Do(w.ctx, w.name, func(ctx context.Context, lease *fairlock.Lease) error {
		if w.ctx.Err() != nil { // it ended as the lock came
			return context.Cause(w.ctx)
		}
		ran = true
		began := time.Now()
		if delay := began.Sub(due); delay > time.Minute {
			w.log.Info("delay", "lock", w.name, "duration", delay)
		}
		returned := false
		defer func() {
			if returned {
				return
			}
			if err := unexpected(lease.Unlock(ctx)); err != nil { // Do has no error for a job that panics
				w.lost(err)
			}
		}()
		defer keep(lease, began.Add(w.atLeast))
		if ours, ok := j.(Job); ok {
			ours(ctx, lease)
		} else {
			j.Run()
		}
		returned = true
		return nil
	}, w.options...)
	var held *fairlock.HeldError
	switch {
	case err == nil:
	case ran:
		w.lost(err)
	case errors.As(err, &held):
		w.log.Info("skip", "lock", w.name, "owner", held.Owner)
	default:
		w.log.Error(err, "skip", "lock", w.name)
	}
}

func (w *wrapper) lost(err error) {
	w.log.Error(err, "the lock was lost, or not given back, while the job ran", "lock", w.name)
}

// keep returns at that time, or when the lock is lost or the Locker closed.
func keep(lease *fairlock.Lease, until time.Time) {
	left := time.Until(until)
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-lease.Done():
	}
}

// unexpected is what came of an Unlock, unless the job had given the lock back itself.
func unexpected(err error) error {
	if errors.Is(err, fairlock.ErrNotHeld) && !errors.Is(err, fairlock.ErrLost) {
		return nil
	}
	return err
}
