package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/fairlock/locks/fairlock"
)

// Locker is a gocron.Locker: of the instances at which a job is due, the first to ask runs it, and
// the others skip that run. It is safe for concurrent use, by several schedulers too.
type Locker struct {
	locker  fairlock.Interface
	atLeast time.Duration
	options []fairlock.LockOption

	mu     sync.Mutex // guards leases
	leases map[string]*fairlock.Lease
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a Locker for gocron.WithDistributedLocker or gocron.WithDistributedJobLocker.
//
// The lock of a job is held while the job runs, and at least for the time atLeast. An instance
// whose clock is behind asks later than the others, and would run a short job once more if that was
// already done. So atLeast has to be longer than the clocks differ, and than an instance is late;
// a second does with NTP. It has to be shorter than the job's interval, or the next run is skipped.
// Until then the run counts as running: it takes a place of gocron.WithLimitConcurrentJobs, and the
// shutdown of the scheduler waits for it. Close of the fairlock.Locker gives the lock back before:
// call it when Shutdown has returned without an error.
//
// The options are for each call, for example fairlock.Note with the name of the host. Do not use
// fairlock.WithOwner, which lets all who name the same owner in. An error says what makes no sense,
// and is a [fairlock.ErrInvalid].
//
// slog.Default() is told, at Warn level, of a run whose lock was lost or not given back.
func NewLocker(locker fairlock.Interface, atLeast time.Duration, options ...fairlock.LockOption) (*Locker, error) {
	switch {
	case locker == nil:
		return nil, fmt.Errorf("gocronlock: %w: the Locker is nil", fairlock.ErrInvalid)
	case atLeast < 0:
		return nil, fmt.Errorf("gocronlock: %w: atLeast is negative", fairlock.ErrInvalid)
	}
	if err := check(func(ended context.Context) error {
		_, err := locker.TryLock(ended, "gocronlock", options...)
		return err
	}); err != nil {
		return nil, err
	}
	return &Locker{locker: locker, atLeast: atLeast, options: options, leases: make(map[string]*fairlock.Lease)}, nil
}

// Lock asks once for the lock of a job. gocron calls it, and skips the run on an error:
// fairlock.ErrHeld if another instance has the job, or what is wrong with the server. The listener
// gocron.AfterLockError is told.
//
// It is an ErrHeld, too, while an earlier run of this instance no longer has its lock and has not
// ended: [Locker.Lease] would give that run the Lease of the next.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	if earlier := l.Lease(key); earlier != nil && earlier.Err() != nil && !errors.Is(earlier.Err(), fairlock.ErrClosed) {
		return nil, notEnded(key, earlier)
	}
	lease, err := l.locker.TryLock(ctx, key, l.options...)
	if err != nil {
		return nil, err
	}
	if earlier := l.begins(key, lease); earlier != nil { // it may not have heard of its loss, or began meanwhile
		if err := lease.Unlock(context.WithoutCancel(ctx)); err != nil {
			return nil, errors.Join(notEnded(key, earlier), err)
		}
		return nil, notEnded(key, earlier)
	}
	return &lock{l, key, lease, time.Now().Add(l.atLeast)}, nil
}

// begins notes the Lease of a run. If an earlier run of the job has not ended, begins returns the
// Lease of that one, and notes nothing.
func (l *Locker) begins(key string, lease *fairlock.Lease) (earlier *fairlock.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if earlier = l.leases[key]; earlier == nil {
		l.leases[key] = lease
	}
	return earlier
}

func notEnded(key string, earlier *fairlock.Lease) error {
	return fmt.Errorf("gocronlock: %q: an earlier run of this instance has lost its lock, and has not ended: %w",
		key, &fairlock.HeldError{Owner: earlier.Owner()})
}

// Lease returns the Lease under which this instance runs the job of that name now, or nil, which
// holds nothing.
func (l *Locker) Lease(name string) *fairlock.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leases[name]
}

// lock is the lock of one run.
type lock struct {
	locker *Locker
	key    string
	lease  *fairlock.Lease
	until  time.Time
}

// Unlock gives the lock back, once it was held for long enough. Like Lease.Unlock it uses no more
// than the values of ctx: when the scheduler shuts down, ctx has ended, and an instance whose clock
// is behind may be about to ask. gocron drops the error, so the log is told of it.
func (l *lock) Unlock(ctx context.Context) error {
	l.locker.mu.Lock()
	if l.locker.leases[l.key] == l.lease {
		delete(l.locker.leases, l.key)
	}
	l.locker.mu.Unlock()
	if left := time.Until(l.until); left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.lease.Done(): // lost, or the Locker was closed
		}
	}
	err := l.lease.Unlock(ctx)
	if err != nil && (errors.Is(err, fairlock.ErrLost) || !errors.Is(err, fairlock.ErrNotHeld)) { // the job may have unlocked it
		slog.WarnContext(ctx, "gocronlock: the lock was lost, or not given back, while the job ran", "lock", l.key, "error", err) //nolint:sloglint // gocron gives a Locker no logger
	}
	return err
}
