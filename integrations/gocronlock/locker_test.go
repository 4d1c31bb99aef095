package gocronlock_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/integrations/gocronlock"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
	"github.com/fairlock/locks/test/written"
)

// host is a scheduler, and what its job tells: it ran, or was skipped.
type host struct {
	gocron.Scheduler
	ran     chan struct{} // has room for all
	skipped chan skip
}

type skip struct{ why error }

// start runs a scheduler, of which a job is due once and now.
func start(t *testing.T, scheduler []gocron.SchedulerOption, task any, job ...gocron.JobOption) *host {
	t.Helper()
	h := &host{nil, make(chan struct{}, 10), make(chan skip, 10)}
	var err error
	h.Scheduler, err = gocron.NewScheduler(append(scheduler, gocron.WithMonitor(h))...)
	world.Must(t, err)
	_, err = h.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(task), append(job,
		gocron.WithName("invoices"), gocron.WithStartAt(gocron.WithStartImmediately()), gocron.WithLimitedRuns(1),
		gocron.WithEventListeners(
			gocron.AfterJobRuns(func(uuid.UUID, string) { h.ran <- struct{}{} }),
			gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { h.skipped <- skip{err} }),
		))...)
	world.Must(t, err)
	h.Start()
	return h
}

// IncrementJob is how gocron tells that an Elector skipped a job.
func (h *host) IncrementJob(_ uuid.UUID, _ string, _ []string, status gocron.JobStatus) {
	if status == gocron.Skip {
		h.skipped <- skip{}
	}
}

// RecordJobTiming makes a host a gocron.Monitor.
func (h *host) RecordJobTiming(time.Time, time.Time, uuid.UUID, string, []string) {}

// runs reports, once it is known, whether the job of the host ran.
func (h *host) runs(t *testing.T) bool {
	t.Helper()
	select {
	case <-h.ran:
		return true
	case <-h.skipped:
		return false
	case <-time.After(world.Patience):
		t.Fatal("the job neither runs nor is skipped")
		return false
	}
}

func (h *host) end(t *testing.T) {
	t.Helper()
	world.Must(t, h.Shutdown())
}

// locks is a Locker of gocron's on a Locker of its own. Closing that one ends the time for which a
// lock is held at least.
type locks struct {
	gocron.Locker
	its *fairlock.Locker
}

func newLocks(t *testing.T, addr string, atLeast time.Duration) locks {
	t.Helper()
	its := world.Host(t, addr)
	l, err := gocronlock.NewLocker(its, atLeast)
	world.Must(t, err)
	return locks{l, its}
}

// count returns of how many hosts the job ran.
func count(t *testing.T, hosts []*host) (n int) {
	t.Helper()
	for _, h := range hosts {
		if h.runs(t) {
			n++
		}
	}
	return n
}

// These are gocron's own tests of its interfaces (TestScheduler_WithDistributed), on real Lockers.
func TestOfThreeSchedulersOneRunsTheJob(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		task := func() {}
		for name, c := range map[string]struct {
			options func(l gocron.Locker) ([]gocron.SchedulerOption, []gocron.JobOption)
			want    int
		}{
			"the scheduler's Locker": {func(l gocron.Locker) ([]gocron.SchedulerOption, []gocron.JobOption) {
				return []gocron.SchedulerOption{gocron.WithDistributedLocker(l)}, nil
			}, 1},
			"the job's Locker": {func(l gocron.Locker) ([]gocron.SchedulerOption, []gocron.JobOption) {
				return nil, []gocron.JobOption{gocron.WithDistributedJobLocker(l)}
			}, 1},
			"a job that wants none": {func(l gocron.Locker) ([]gocron.SchedulerOption, []gocron.JobOption) {
				return []gocron.SchedulerOption{gocron.WithDistributedLocker(l)}, []gocron.JobOption{gocron.WithDisabledDistributedJobLocker(true)}
			}, 3},
		} {
			var hosts []*host
			var all []locks
			for range 3 {
				l := newLocks(t, addr, time.Hour) // so no host is too late
				scheduler, job := c.options(l)
				all, hosts = append(all, l), append(hosts, start(t, scheduler, task, job...))
			}
			if n := count(t, hosts); n != c.want {
				t.Errorf("%s: %d ran the job", name, n)
			}
			for i, h := range hosts {
				world.Must(t, all[i].its.Close())
				h.end(t)
			}
		}
	})
}

func TestAShortJobIsNotRunAgainByAnInstanceWhoseClockIsBehind(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		for _, c := range []struct {
			atLeast time.Duration
			again   bool
		}{{time.Hour, false}, {0, true}} {
			first, second := newLocks(t, addr, c.atLeast), newLocks(t, addr, c.atLeast)
			a := start(t, with(first), func() {})
			if !a.runs(t) {
				t.Fatal("the first instance did not run the job")
			}
			if c.again { // the lock is given back a moment after the listener was told
				world.UntilHeld(t, world.Host(t, addr), "invoices", false)
			}
			b := start(t, with(second), func() {})
			if again := b.runs(t); again != c.again {
				t.Errorf("held for at least %v: it ran again: %t", c.atLeast, again)
			}
			world.Must(t, first.its.Close())
			a.end(t)
			b.end(t)
		}
	})
}

func with(l gocron.Locker) []gocron.SchedulerOption {
	return []gocron.SchedulerOption{gocron.WithDistributedLocker(l)}
}

func TestTheLockIsHeldForAtLeastTheTimeThatWasAsked(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		const atLeast = 100 * time.Millisecond
		began := time.Now()
		l, err := newLocks(t, addr, atLeast).Lock(t.Context(), "invoices")
		world.Must(t, err)
		ended, cancel := context.WithCancel(t.Context())
		cancel() // as when the scheduler shuts down
		world.Must(t, l.Unlock(ended))
		if took := time.Since(began); took < atLeast {
			t.Errorf("it was held for %v", took)
		}
	})
}

func TestASkippedRunSaysWhoHasTheJobOrWhatIsWrongWithTheServer(t *testing.T) {
	s := redistest.Start(t)
	lease, err := world.Host(t, s.Addr()).Lock(t.Context(), "invoices", fairlock.WithOwner("host B"))
	world.Must(t, err)
	h := start(t, with(newLocks(t, s.Addr(), 0)), func() { t.Error("it ran") })
	var held *fairlock.HeldError
	if err := world.Next(t, h.skipped).why; !errors.As(err, &held) || held.Owner != "host B" {
		t.Errorf("the listener was told %v", err)
	}
	h.end(t)
	world.Must(t, lease.Unlock(t.Context()))
	s.Kill()
	h = start(t, with(newLocks(t, s.Addr(), 0)), func() { t.Error("it ran") })
	if err := world.Next(t, h.skipped).why; err == nil || errors.Is(err, fairlock.ErrHeld) {
		t.Errorf("the listener was told %v", err)
	}
	h.end(t)
}

func TestAJobThatLosesItsLockHearsOfItAndKnowsItsToken(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin := world.Host(t, addr)
		l, err := gocronlock.NewLocker(world.Host(t, addr, fairlock.WithLease(world.CalmLease)), 0)
		world.Must(t, err)
		tokens := make(chan int64, 2)
		h := start(t, with(l), func(ctx context.Context) error {
			lease := l.Lease("invoices")
			ctx, cancel := gocronlock.WithLease(ctx, lease)
			defer cancel()
			tokens <- lease.Token()
			_ = admin.ForceUnlock(ctx, "invoices")
			<-ctx.Done()
			if err := context.Cause(ctx); !errors.Is(err, fairlock.ErrLost) {
				t.Errorf("the job was told %v", err)
			}
			return nil
		})
		if !h.runs(t) || <-tokens == 0 {
			t.Error("it did not run under a lock")
		}
		h.end(t)
		if l.Lease("invoices") != nil {
			t.Error("after the run there is a Lease")
		}
	})
}

func TestARunIsSkippedWhileAnEarlierOneOfTheInstanceHasLostItsLockAndHasNotEnded(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin := world.Host(t, addr)
		l, err := gocronlock.NewLocker(world.Host(t, addr), 0)
		world.Must(t, err)
		first, err := l.Lock(t.Context(), "invoices")
		world.Must(t, err)
		lease := l.Lease("invoices")
		var held *fairlock.HeldError
		if _, err := l.Lock(t.Context(), "invoices"); !errors.As(err, &held) {
			t.Errorf("while it has its lock: %v", err)
		}
		world.Must(t, admin.ForceUnlock(t.Context(), "invoices"))
		for range 2 { // the run may not have heard of its loss at first
			if _, err := l.Lock(t.Context(), "invoices"); !errors.As(err, &held) || held.Owner != lease.Owner() {
				t.Errorf("the next run was told %v", err)
			}
			if l.Lease("invoices") != lease {
				t.Error("the run has another's Lease")
			}
			world.UntilHeld(t, admin, "invoices", false)
		}
		if err := first.Unlock(t.Context()); !errors.Is(err, fairlock.ErrLost) {
			t.Errorf("the run that lost its lock was told %v", err)
		}
		next, err := l.Lock(t.Context(), "invoices")
		world.Must(t, err)
		world.Must(t, next.Unlock(t.Context()))
	})
}

// hooked is a Locker that does something else before it asks.
type hooked struct {
	fairlock.Interface
	before func()
}

func (h *hooked) TryLock(ctx context.Context, name string, options ...fairlock.LockOption) (*fairlock.Lease, error) {
	if before := h.before; before != nil {
		h.before = nil
		before()
	}
	return h.Interface.TryLock(ctx, name, options...)
}

func TestARunIsSkippedAlsoIfTheEarlierOneBeganAndLostItsLockMeanwhile(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin, its := world.Host(t, addr), &hooked{Interface: world.Host(t, addr)}
		l, err := gocronlock.NewLocker(its, 0)
		world.Must(t, err)
		var first gocron.Lock
		its.before = func() {
			first, err = l.Lock(t.Context(), "invoices")
			world.Must(t, err)
			world.Must(t, admin.ForceUnlock(t.Context(), "invoices"))
		}
		var held *fairlock.HeldError
		if _, err := l.Lock(t.Context(), "invoices"); !errors.As(err, &held) || held.Owner != l.Lease("invoices").Owner() {
			t.Errorf("the run was told %v", err)
		}
		world.UntilHeld(t, admin, "invoices", false)
		if err := first.Unlock(t.Context()); !errors.Is(err, fairlock.ErrLost) {
			t.Errorf("the run that lost its lock was told %v", err)
		}
	})
}

func TestARunUnderALockerThatIsClosedMeanwhileIsNotSaidToHaveLostItsLock(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		locker := world.Host(t, addr)
		l, err := gocronlock.NewLocker(locker, 0)
		world.Must(t, err)
		first, err := l.Lock(t.Context(), "invoices")
		world.Must(t, err)
		world.Must(t, locker.Close())
		if _, err := l.Lock(t.Context(), "invoices"); !errors.Is(err, fairlock.ErrClosed) || errors.Is(err, fairlock.ErrHeld) {
			t.Errorf("the next run was told %v", err)
		}
		world.Must(t, first.Unlock(t.Context()))
	})
}

// lines is a log.
type lines struct{ written.Text }

// logged returns what slog.Default() is told during the test.
func logged(t *testing.T) *lines {
	t.Helper()
	log, before := new(lines), slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return log
}

// of returns how often the log names a lock in a warning.
func (l *lines) of(name string) int {
	return strings.Count(l.String(), "level=WARN msg=\"gocronlock: the lock was lost, or not given back, while the job ran\" lock="+name+" ")
}

func TestTheLogIsToldOfALossThatOnlyTheReleaseNotices(t *testing.T) {
	log := logged(t)
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin, l := world.Host(t, addr), newLocks(t, addr, 0)
		for prefix, c := range map[string]struct {
			job  func(name string)
			want int
		}{
			"lost":     {func(name string) { world.Must(t, admin.ForceUnlock(t.Context(), name)) }, 1},
			"unlocked": {func(name string) { world.Must(t, l.Locker.(*gocronlock.Locker).Lease(name).Unlock(t.Context())) }, 0},
			"done":     {func(string) {}, 0},
		} {
			name := prefix + "@" + addr // both servers have one log
			run, err := l.Lock(t.Context(), name)
			world.Must(t, err)
			c.job(name)
			_ = run.Unlock(t.Context()) // as gocron does
			if n := log.of(name); n != c.want {
				t.Errorf("%s: the log says it %d times", prefix, n)
			}
		}
	})
}

func TestTheContextOfAJobEndsWithTheJobsOwnAndCarriesBothOfWhatItIsMadeOf(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		l := world.Host(t, addr)
		lease, err := l.Lock(t.Context(), "invoices")
		world.Must(t, err)
		type key struct{}
		why := errors.New("the program ends")
		ctx, stop := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
		under, cancel := gocronlock.WithLease(ctx, lease)
		defer cancel()
		if nested, err := l.TryLock(under, "invoices"); err != nil || under.Value(key{}) != "value" {
			t.Errorf("it does not carry the hold (%v), or %v", err, under.Value(key{}))
		} else {
			world.Must(t, nested.Unlock(t.Context()))
		}
		stop(why)
		<-under.Done()
		if cause := context.Cause(under); cause != why {
			t.Errorf("it ended with %v", cause)
		}
		world.Must(t, lease.Unlock(t.Context()))
		if over, cancel := gocronlock.WithLease(t.Context(), lease); !errors.Is(context.Cause(over), fairlock.ErrNotHeld) {
			t.Errorf("of a Lease that has ended: %v", context.Cause(over))
		} else {
			cancel()
		}
		none, cancelNone := gocronlock.WithLease(t.Context(), nil)
		defer cancelNone()
		if !errors.Is(context.Cause(none), fairlock.ErrNotHeld) {
			t.Errorf("of no Lease: %v", context.Cause(none))
		}
	})
}

func TestWhatMakesNoSenseIsAnErrorAtOnce(t *testing.T) {
	l := world.Host(t, "127.0.0.1:1") // nobody is asked
	_, noLocker := gocronlock.NewLocker(nil, 0)
	_, negative := gocronlock.NewLocker(l, -1)
	_, option := gocronlock.NewLocker(l, 0, fairlock.LeaseFor(1))
	_, elects := gocronlock.NewElector(nil, "scheduler")
	_, noName := gocronlock.NewElector(l, "")
	for i, err := range []error{noLocker, negative, option, elects, noName} {
		if !errors.Is(err, fairlock.ErrInvalid) {
			t.Errorf("number %d: %v", i, err)
		}
	}
}
