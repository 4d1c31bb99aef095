package cronlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/locktest"
	"github.com/fairlock/locks/integrations/cronlock"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// host is a cron of one host, and what its wrapper logs. Jobs are due once and now.
type host struct {
	*cron.Cron
	t    *testing.T
	said chan line // has room for all
}

type line struct {
	what string
	err  error
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{cron.New(), t, make(chan line, 20)}
	h.Start()
	t.Cleanup(h.ends)
	return h
}

// Info is of cron.Logger, and so is Error.
func (h *host) Info(what string, with ...any) { h.said <- line{fmt.Sprint(what, with), nil} }

func (h *host) Error(err error, what string, with ...any) {
	h.said <- line{fmt.Sprint(what, with), err}
}

// due has a job run now, in the cron.
func (h *host) due(wrap cron.JobWrapper, j cron.Job) {
	h.Schedule(&once{}, cron.NewChain(wrap).Then(j))
}

// once is a schedule.
type once struct{ asked bool }

// Next returns now, and the next time never.
func (o *once) Next(now time.Time) time.Time {
	if o.asked {
		return time.Time{}
	}
	o.asked = true
	return now.Add(time.Millisecond)
}

// says returns what the wrapper logs next.
func (h *host) says() line {
	h.t.Helper()
	return world.Next(h.t, h.said)
}

// ends returns when all jobs are done.
func (h *host) ends() {
	h.t.Helper()
	world.Next(h.t, h.Stop().Done())
}

func (h *host) skips(l fairlock.Interface, atLeast time.Duration) cron.JobWrapper {
	h.t.Helper()
	wrap, err := cronlock.SkipIfRunningElsewhere(h.t.Context(), l, "invoices", atLeast, h)
	world.Must(h.t, err)
	return wrap
}

func (h *host) delays(ctx context.Context, l fairlock.Interface) cron.JobWrapper {
	h.t.Helper()
	wrap, err := cronlock.DelayIfRunningElsewhere(ctx, l, "invoices", h)
	world.Must(h.t, err)
	return wrap
}

func TestAJobThatRunsOnOneHostIsSkippedOnTheOthers(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		a, b := newHost(t), newHost(t)
		began, end := make(chan struct{}), make(chan struct{})
		a.due(a.skips(world.Host(t, addr), 0), cron.FuncJob(func() {
			close(began)
			<-end
		}))
		world.Next(t, began)
		theirs := world.Host(t, addr)
		b.due(b.skips(theirs, 0), cron.FuncJob(func() { t.Error("it ran on both") }))
		if said := b.says(); said.err != nil || said.what[:4] != "skip" {
			t.Errorf("the log says %v", said)
		}
		close(end)
		a.ends()
		ran := make(chan struct{})
		b.due(b.skips(theirs, 0), cron.FuncJob(func() { close(ran) })) // the next time it may
		world.Next(t, ran)
	})
}

func TestAShortJobIsNotRunAgainByAHostWhoseClockIsBehind(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		a, b := newHost(t), newHost(t)
		ran := make(chan struct{})
		first := world.Host(t, addr)
		a.due(a.skips(first, time.Hour), cron.FuncJob(func() { close(ran) }))
		world.Next(t, ran)
		b.due(b.skips(world.Host(t, addr), time.Hour), cron.FuncJob(func() { t.Error("it ran again") }))
		if said := b.says(); said.err != nil {
			t.Errorf("the log says %v", said)
		}
		world.Must(t, first.Close()) // ends the hour
		a.ends()
	})
}

func TestTheLockIsHeldForAtLeastTheTimeThatWasAsked(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		const atLeast = 100 * time.Millisecond
		h := newHost(t)
		began := time.Now()
		h.skips(world.Host(t, addr), atLeast)(cron.FuncJob(func() {})).Run()
		if took := time.Since(began); took < atLeast {
			t.Errorf("it was held for %v", took)
		}
	})
}

func TestADelayedJobRunsOnEveryHostOneAfterTheOther(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin := world.Host(t, addr)
		gate, err := admin.Lock(t.Context(), "invoices")
		world.Must(t, err)
		ran := make(chan int, 3)
		for n := range 3 {
			h := newHost(t)
			h.due(h.delays(t.Context(), world.Host(t, addr)), cron.FuncJob(func() { ran <- n }))
			world.UntilWaiting(t, admin, "invoices", n+1)
		}
		world.Must(t, gate.Unlock(t.Context()))
		for want := range 3 {
			if got := world.Next(t, ran); got != want {
				t.Errorf("host %d ran the job, not host %d", got, want)
			}
		}
	})
}

func TestAJobThatWaitsGivesUpWhenTheContextEnds(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin, h := world.Host(t, addr), newHost(t)
		gate, err := admin.Lock(t.Context(), "invoices")
		world.Must(t, err)
		defer func() { world.Must(t, gate.Unlock(t.Context())) }()
		ctx, cancel := context.WithCancel(t.Context())
		h.due(h.delays(ctx, world.Host(t, addr)), cron.FuncJob(func() { t.Error("it ran") }))
		world.UntilWaiting(t, admin, "invoices", 1)
		cancel()
		if said := h.says(); !errors.Is(said.err, context.Canceled) {
			t.Errorf("the log says %v", said)
		}
		h.ends()
	})
}

func TestNoRunBeginsWhenTheContextHasEndedAsTheLockCame(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin, h, l := world.Host(t, addr), newHost(t), world.Host(t, addr)
		for range 10 { // whether the lock or the end of the context comes first may be chance
			gate, err := admin.Lock(t.Context(), "invoices")
			world.Must(t, err)
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("the program ends")
			queued := func(int) {
				cancel(why)
				world.Must(t, gate.Unlock(t.Context()))
				world.UntilHeld(t, admin, "invoices", true)
			}
			wrap, err := cronlock.DelayIfRunningElsewhere(ctx, l, "invoices", h, fairlock.OnQueued(queued))
			world.Must(t, err)
			wrap(cron.FuncJob(func() { t.Error("it ran") })).Run()
			if said := h.says(); said.what[:4] != "skip" || !errors.Is(said.err, why) {
				t.Errorf("the log says %v", said)
			}
			world.UntilHeld(t, admin, "invoices", false)
		}
	})
}

func TestAJobWithAContextHearsThatItsLockIsLostAndTheLogSaysItOfAnyJob(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin := world.Host(t, addr)
		h := newHost(t)
		l := world.Host(t, addr, fairlock.WithLease(world.CalmLease))
		heard := make(chan error, 1)
		h.due(h.skips(l, 0), cronlock.Job(func(ctx context.Context, lease *fairlock.Lease) {
			if lease.Token() == 0 {
				t.Error("it runs without a lock")
			}
			_ = admin.ForceUnlock(context.WithoutCancel(ctx), "invoices")
			<-ctx.Done()
			heard <- context.Cause(ctx)
		}))
		if err := world.Next(t, heard); !errors.Is(err, fairlock.ErrLost) {
			t.Errorf("the job was told %v", err)
		}
		if said := h.says(); !errors.Is(said.err, fairlock.ErrLost) {
			t.Errorf("the log says %v", said)
		}
		h.due(h.skips(l, 0), cron.FuncJob(func() { _ = admin.ForceUnlock(t.Context(), "invoices") }))
		if said := h.says(); !errors.Is(said.err, fairlock.ErrLost) {
			t.Errorf("of a job without a context the log says %v", said)
		}
	})
}

func TestAJobWithAContextThatRunsWithoutALockIsToldSo(t *testing.T) {
	cronlock.Job(func(ctx context.Context, lease *fairlock.Lease) {
		if !errors.Is(context.Cause(ctx), fairlock.ErrNotHeld) || lease.Token() != 0 {
			t.Errorf("%v, token %d", context.Cause(ctx), lease.Token())
		}
	}).Run()
}

func TestAJobThatPanicsGivesTheLockBack(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		h := newHost(t)
		recovers := cron.NewChain(cron.Recover(h), h.skips(world.Host(t, addr), 0))
		recovers.Then(cron.FuncJob(func() { panic("oh") })).Run()
		if said := h.says(); said.err == nil || said.err.Error() != "oh" {
			t.Errorf("the log says %v", said)
		}
		lease, err := world.Host(t, addr).Lock(t.Context(), "invoices") // long before the lease would end
		world.Must(t, err)
		world.Must(t, lease.Unlock(t.Context()))
	})
}

func TestWhileTheServerIsAwayNoJobRunsAndTheLogSaysSo(t *testing.T) {
	s := redistest.Start(t)
	h := newHost(t)
	l := world.Host(t, s.Addr())
	s.Kill()
	for _, wrap := range []cron.JobWrapper{h.skips(l, 0), h.delays(t.Context(), l)} {
		h.due(wrap, cron.FuncJob(func() { t.Error("it ran") }))
		if said := h.says(); said.err == nil || errors.Is(said.err, fairlock.ErrHeld) {
			t.Errorf("the log says %v", said)
		}
	}
}

func TestWhatMakesNoSenseIsAnErrorAtOnce(t *testing.T) {
	l := world.Host(t, "127.0.0.1:1") // nobody is asked
	var none context.Context
	for what, err := range map[string]error{
		"no context":      made(cronlock.DelayIfRunningElsewhere(none, l, "invoices", cron.DiscardLogger)),
		"no Locker":       made(cronlock.DelayIfRunningElsewhere(t.Context(), nil, "invoices", cron.DiscardLogger)),
		"no name":         made(cronlock.DelayIfRunningElsewhere(t.Context(), l, "", cron.DiscardLogger)),
		"no logger":       made(cronlock.DelayIfRunningElsewhere(t.Context(), l, "invoices", nil)),
		"a lock's option": made(cronlock.DelayIfRunningElsewhere(t.Context(), l, "invoices", cron.DiscardLogger, fairlock.LeaseFor(1))),
		"a negative time": made(cronlock.SkipIfRunningElsewhere(t.Context(), l, "invoices", -1, cron.DiscardLogger)),
	} {
		if !errors.Is(err, fairlock.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func made(_ cron.JobWrapper, err error) error { return err }

func TestTheLogTellsOfALossAlsoIfTheJobPanics(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		h, admin := newHost(t), world.Host(t, addr)
		wrap := h.skips(world.Host(t, addr), 0)
		h.Schedule(&once{}, cron.NewChain(cron.Recover(cron.DiscardLogger), wrap).Then(cronlock.Job(func(ctx context.Context, _ *fairlock.Lease) {
			if err := admin.ForceUnlock(context.WithoutCancel(ctx), "invoices"); err != nil {
				t.Error(err)
			}
			panic("the job's own")
		})))
		if said := h.says(); !errors.Is(said.err, fairlock.ErrLost) {
			t.Errorf("the log says %v", said)
		}
	})
}

func TestAJobThatGaveTheLockBackAndPanicsHasLostNothing(t *testing.T) {
	h := newHost(t)
	wrap, err := cronlock.SkipIfRunningElsewhere(t.Context(), locktest.New(t), "a", time.Millisecond, h)
	if err != nil {
		t.Fatal(err)
	}
	job := cron.NewChain(wrap).Then(cronlock.Job(func(ctx context.Context, lease *fairlock.Lease) {
		if err := lease.Unlock(ctx); err != nil {
			t.Error(err)
		}
		panic("its own")
	}))
	func() {
		defer func() {
			if p := recover(); p != "its own" {
				t.Errorf("it panics with %v", p)
			}
		}()
		job.Run()
	}()
	for len(h.said) > 0 {
		if got := h.says(); got.err != nil {
			t.Errorf("it logs %+v", got)
		}
	}
}
