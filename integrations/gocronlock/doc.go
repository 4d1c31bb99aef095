// Package gocronlock lets several instances of a program share the jobs of gocron v2: a [Locker],
// with which each run of a job is done by the instance that comes first, and an [Elector], with
// which one instance does all jobs until it ends or dies.
//
//	locks, err := gocronlock.NewLocker(locker, time.Second)
//	...
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locks))
//
// The Locker spreads the jobs over the instances, and its lock is per job, so jobs need names
// (gocron.WithName) that are the same everywhere. Its instances do not know the schedule of each
// other: two clocks that differ by more than the time for which the lock is held would run a job
// twice. With the Elector, which gocron's documentation recommends then, clocks matter only to a
// job that is due while the leader changes. A job that is due while no scheduler leads is skipped:
// between Shutdown of the leader's scheduler and Close of its Elector, or for a lease after a
// crash.
//
// gocron tells a job nothing of the lock that it runs under. A job finds its Lease with
// [Locker.Lease] or [Elector.Lease], and with [WithLease] a context that ends when the lock is
// lost.
package gocronlock

import (
	"context"

	"github.com/fairlock/locks/fairlock"
)

// WithLease returns a context for a job: it ends with ctx and when the Lease can no longer be
// trusted: with cause fairlock.ErrLost, fairlock.ErrNotHeld if the lock was given back, as Close of
// an Elector does, or fairlock.ErrClosed. It carries the hold, so nested calls re-enter. Without a
// Lease (nil) it has ended already. The job has to call cancel when it is done.
func WithLease(ctx context.Context, lease *fairlock.Lease) (under context.Context, cancel context.CancelFunc) {
	under, end := context.WithCancelCause(job{ctx, lease.Context()})
	lost := context.AfterFunc(lease.Context(), func() { end(context.Cause(lease.Context())) })
	if err := lease.Err(); err != nil {
		end(err) // AfterFunc tells of it a moment later
	}
	return under, func() {
		lost()
		end(nil)
	}
}

// job is a job's context with the hold of its Lease.
type job struct {
	context.Context
	lease context.Context
}

// Value returns what the job's context has, or else the Lease's.
func (j job) Value(key any) any {
	if value := j.Context.Value(key); value != nil {
		return value
	}
	return j.lease.Value(key)
}
