package leader_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/leader"
	"github.com/fairlock/locks/fairlock/locktest"
	"github.com/fairlock/locks/redisson"
	"github.com/fairlock/locks/reentrant"
	"github.com/fairlock/locks/test/bubbles"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
	"github.com/fairlock/locks/test/written"
)

func TestOneInstanceLeadsAndTheOthersFollowInTheOrderOfTheirLine(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		j := new(journal)
		a := j.run(t, world.Host(t, addr), "A", nil)
		b := j.run(t, world.Host(t, addr), "B", nil)
		c := j.run(t, world.Host(t, addr), "C", nil)
		var want []string
		for i, instance := range []*instance{a, b, c} {
			who := string(rune('A' + i))
			want = append(want, who+" elected", who+" leads")
			if got := j.until(t, len(want)); !slices.Equal(got, want) { // long before the lease of 30 s ends
				t.Fatalf("%q, want %q", got, want)
			}
			instance.stop()
			if err := instance.end(t); err != nil {
				t.Errorf("%s: %v", who, err)
			}
			want = append(want, who+" ends")
		}
		if j.most != 1 || !slices.IsSorted(j.tokens) {
			t.Errorf("%d led at once, with tokens %v", j.most, j.tokens)
		}
	})
}

func TestAnInstanceWhoseFunctionReturnsResignsAndRunReturnsTheSame(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		l, next := world.Host(t, addr), world.Host(t, addr)
		broken := errors.New("broken")
		for _, want := range []error{nil, broken} {
			j := new(journal)
			var follower *instance
			err := leader.Run(t.Context(), l, "active", func(context.Context, *fairlock.Lease) error {
				follower = j.run(t, next, "B", nil)
				return want
			}, leader.OnLost(func(err error) { t.Error(err) }))
			if err != want {
				t.Errorf("Run returned %v, and its function %v", err, want)
			}
			j.until(t, 2) // the follower leads, long before the lease ends
			follower.stop()
			_ = follower.end(t)
		}
	})
}

func TestALossEndsTheFunctionThenTellsTheHookAndThenStandsInLineAgain(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		j := new(journal)
		var why error
		a := j.run(t, world.Host(t, addr, fairlock.WithLease(world.CalmLease)), "A", errors.New("what it returns then does not matter"),
			leader.OnLost(func(err error) { why = err; j.add("A lost") }))
		if err := world.Host(t, addr).ForceUnlock(t.Context(), "active"); err != nil {
			t.Fatal(err)
		}
		want := []string{"A elected", "A leads", "A ends", "A lost", "A elected", "A leads"}
		if got := j.until(t, len(want)); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if !errors.Is(why, fairlock.ErrLost) {
			t.Errorf("the hook was told %v", why)
		}
		a.stop()
		_ = a.end(t)
	})
}

func TestALeaderThatIsForcedFollowsTheOneThatWaited(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		j := new(journal)
		a := j.run(t, world.Host(t, addr, fairlock.WithLease(world.CalmLease)), "A", nil)
		b := j.run(t, world.Host(t, addr), "B", nil)
		admin := world.Host(t, addr)
		if err := admin.ForceUnlock(t.Context(), "active"); err != nil {
			t.Fatal(err)
		}
		j.until(t, 6)                             // B is elected and leads; A ends and has lost
		world.UntilWaiting(t, admin, "active", 1) // A is in line again
		b.stop()
		if err := b.end(t); err != nil {
			t.Error(err)
		}
		if got := j.until(t, 9)[7:]; !slices.Equal(got, []string{"A elected", "A leads"}) {
			t.Errorf("after B has resigned: %q", got)
		}
		a.stop()
		_ = a.end(t)
	})
}

func TestALossThatOnlyTheReleaseNoticesIsALoss(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin, l := world.Host(t, addr), world.Host(t, addr)
		lost, turns := 0, 0
		err := leader.Run(t.Context(), l, "active", func(context.Context, *fairlock.Lease) error {
			if turns++; turns == 2 {
				return nil
			}
			if err := admin.ForceUnlock(t.Context(), "active"); err != nil {
				t.Error(err)
			}
			return errors.New("the store refused the token")
		}, leader.OnLost(func(error) { lost++ }))
		if err != nil || lost != 1 || turns != 2 {
			t.Errorf("%v, after %d losses in %d turns", err, lost, turns)
		}
	})
}

func TestAnInstanceThatHasLostBeforeOnElectedReturnsDoesNotLeadInThatTerm(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin, l := world.Host(t, addr), world.Host(t, addr, fairlock.WithLease(world.CalmLease))
		terms, turns := 0, 0
		var lost []error
		err := leader.Run(t.Context(), l, "active", func(context.Context, *fairlock.Lease) error {
			if turns++; terms == 1 {
				t.Error("it leads beside the next one")
			}
			return nil
		}, leader.OnElected(func(lease *fairlock.Lease) {
			if terms++; terms == 1 {
				world.Must(t, admin.ForceUnlock(t.Context(), "active"))
				world.Next(t, lease.Done())
			}
		}), leader.OnLost(func(err error) { lost = append(lost, err) }))
		if err != nil || terms != 2 || turns != 1 || len(lost) != 1 {
			t.Fatalf("%v, after %d terms, %d turns and the losses %v", err, terms, turns, lost)
		}
		if !errors.Is(lost[0], fairlock.ErrLost) {
			t.Errorf("the hook was told %v", lost[0])
		}
	})
}

func TestAnInstanceWhoseHookGivesTheLockBackDoesNotLeadAndRunSaysWhy(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		unlocks, closes := world.Host(t, addr), world.Host(t, addr)
		for want, c := range map[error]struct {
			locker *fairlock.Locker
			hook   func(*fairlock.Lease)
		}{
			fairlock.ErrNotHeld: {unlocks, func(lease *fairlock.Lease) { world.Must(t, lease.Unlock(t.Context())) }},
			fairlock.ErrClosed:  {closes, func(*fairlock.Lease) { world.Must(t, closes.Close()) }},
		} {
			err := leader.Run(t.Context(), c.locker, "active", never(t), leader.OnElected(c.hook),
				leader.OnLost(func(err error) { t.Errorf("OnLost was told %v", err) }))
			if !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
	})
}

func TestAResignationThatIsConfirmedOnlyAfterTheLeaseIsNoLoss(t *testing.T) {
	for _, silent := range []time.Duration{4 * time.Second, 4900 * time.Millisecond, 6 * time.Second} {
		bubbles.Test(t, func(t *testing.T) {
			l := locktest.New(t, fairlock.WithLease(5*time.Second))
			lost, turns := 0, 0
			done := errors.New("done")
			err := leader.Run(t.Context(), l, "active", func(context.Context, *fairlock.Lease) error {
				turns++
				time.Sleep(1500 * time.Millisecond)
				l.Server.Pause()
				time.AfterFunc(silent, l.Server.Resume)
				return done
			}, leader.OnLost(func(error) { lost++ }))
			if !errors.Is(err, done) || err == done || lost != 0 || turns != 1 {
				t.Errorf("the server is silent for %v: %v, after %d losses in %d turns", silent, err, lost, turns)
			}
		})
	}
}

func TestAnEndAndALossAtTheSameTimeAreBothTold(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin, l, lost := world.Host(t, addr), world.Host(t, addr), 0
		ctx, cancel := context.WithCancel(t.Context())
		broken := errors.New("broken")
		err := leader.Run(ctx, l, "active", func(context.Context, *fairlock.Lease) error {
			world.Must(t, admin.ForceUnlock(t.Context(), "active"))
			cancel()
			return broken
		}, leader.OnLost(func(error) { lost++ }))
		if !errors.Is(err, broken) || !errors.Is(err, fairlock.ErrLost) || lost != 1 {
			t.Errorf("%v, after %d losses", err, lost)
		}
	})
}

func TestAServerThatIsAwayAtTheStartIsAskedAgainAndTheLogSaysSo(t *testing.T) {
	s := redistest.Start(t)
	s.Kill()
	var log lines
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	leads := make(chan struct{})
	l := world.Host(t, s.Addr())
	go func() {
		ended <- leader.Run(ctx, l, "active", func(ctx context.Context, _ *fairlock.Lease) error {
			close(leads)
			<-ctx.Done()
			return nil
		}, leader.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	}()
	log.until(t, "cannot stand in line, trying again")
	s.Restart()
	world.Next(t, leads)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAFollowerThatAnOperatorEvictedStandsInLineAgainAndTheLogSaysSo(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin, j := world.Host(t, addr), new(journal)
		held, err := admin.Lock(t.Context(), "active")
		world.Must(t, err)
		log := new(lines)
		a := j.run(t, world.Host(t, addr), "A", nil, leader.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		world.UntilWaiting(t, admin, "active", 1)
		state, err := admin.Inspect(t.Context(), "active")
		world.Must(t, err)
		world.Must(t, admin.Evict(t.Context(), "active", state.Waiters[0].ID))
		log.until(t, fairlock.ErrEvicted.Error())
		world.UntilWaiting(t, admin, "active", 1)
		world.Must(t, held.Unlock(t.Context()))
		j.until(t, 2) // A is elected and leads
		a.stop()
		if err := a.end(t); err != nil {
			t.Error(err)
		}
	})
}

func TestAContextThatEndsWhileTheServerIsAwayEndsRun(t *testing.T) {
	s := redistest.Start(t)
	s.Kill()
	var log lines
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	l := world.Host(t, s.Addr())
	go func() {
		ended <- leader.Run(ctx, l, "active", never(t), leader.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	}()
	log.until(t, "cannot stand in line, trying again")
	why := errors.New("the program ends")
	cancel(why)
	if err := <-ended; !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
		t.Error(err)
	}
}

func TestAContextThatIsDoneAndHasNoErrorEndsAFollower(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin, l := world.Host(t, addr), world.Host(t, addr)
		held, err := admin.Lock(t.Context(), "active")
		world.Must(t, err)
		ctx, log, ended := newMute(t), new(lines), make(chan error, 1)
		go func() {
			ended <- leader.Run(ctx, l, "active", never(t), leader.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		}()
		world.UntilWaiting(t, admin, "active", 1)
		close(ctx.done)
		if err := world.Next(t, ended); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if said := log.String(); said != "" {
			t.Errorf("the log says %s", said)
		}
		world.Must(t, held.Unlock(t.Context()))
	})
}

func TestAContextThatIsDoneAndHasNoErrorEndsALeaderThatHasLost(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin, l := world.Host(t, addr), world.Host(t, addr)
		ctx, ended, turns, lost := newMute(t), make(chan error, 1), 0, 0
		go func() {
			ended <- leader.Run(ctx, l, "active", func(context.Context, *fairlock.Lease) error {
				if turns++; turns == 1 {
					_ = admin.ForceUnlock(t.Context(), "active")
					close(ctx.done)
				}
				return nil
			}, leader.OnLost(func(error) { lost++ }), leader.WithLogger(slog.New(slog.DiscardHandler)))
		}()
		err := world.Next(t, ended)
		if !errors.Is(err, fairlock.ErrLost) || turns != 1 || lost != 1 {
			t.Errorf("%v, after %d losses in %d turns", err, lost, turns)
		}
	})
}

func TestALeaderThatASilentServerCannotConfirmStopsBeforeItsLeaseEndsAndLeadsAgainLater(t *testing.T) {
	s := redistest.Start(t)
	j := new(journal)
	a := j.run(t, world.Host(t, s.Addr(), fairlock.WithLease(world.CalmLease)), "A", nil)
	s.Pause()
	j.until(t, 4) // it ends and has lost, while the server is silent
	s.Resume()
	want := []string{"A elected", "A leads", "A ends", "A lost", "A elected", "A leads"}
	if got := j.until(t, len(want)); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	a.stop()
	_ = a.end(t)
}

func TestALeaderAndItsFollowerWhoseConnectionsAreKilledKeepTheirPlaces(t *testing.T) {
	s := redistest.Start(t)
	j := new(journal)
	a := j.run(t, world.Host(t, s.Addr()), "A", nil)
	b := j.run(t, world.Host(t, s.Addr()), "B", nil)
	rdb := s.Client(t)
	for _, kind := range []string{"normal", "pubsub"} {
		if err := rdb.ClientKillByFilter(t.Context(), "TYPE", kind, "SKIPME", "yes").Err(); err != nil {
			t.Fatal(err)
		}
	}
	a.stop()
	if err := a.end(t); err != nil {
		t.Error(err)
	}
	want := []string{"A elected", "A leads", "A ends", "B elected", "B leads"}
	if got := j.until(t, len(want)); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	b.stop()
	_ = b.end(t)
}

func TestAPanicOfTheFunctionOrOfAHookResignsAndIsTheCallers(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		l, next := world.Host(t, addr), world.Host(t, addr)
		panics := func(*fairlock.Lease) { panic("oh") }
		for name, run := range map[string]func(){
			"the function": func() {
				_ = leader.Run(t.Context(), l, "active", func(context.Context, *fairlock.Lease) error { panic("oh") })
			},
			"OnElected": func() { _ = leader.Run(t.Context(), l, "active", never(t), leader.OnElected(panics)) },
		} {
			if got := panicOf(run); got != "oh" {
				t.Errorf("%s: the caller's panic is %v", name, got)
			}
			lease, err := next.TryLock(t.Context(), "active")
			if err != nil {
				t.Fatalf("after a panic of %s: %v", name, err)
			}
			_ = lease.Unlock(t.Context())
		}
	})
}

func TestInstancesOfAPlainLockLeadOneAtATime(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		j := new(journal)
		var all []*instance
		for _, who := range []string{"A", "B"} {
			rdb := redis.NewClient(&redis.Options{Addr: addr})
			plain := reentrant.New(rdb)
			t.Cleanup(func() {
				_ = plain.Close()
				_ = rdb.Close()
			})
			all = append(all, j.run(t, plain, who, nil))
		}
		for i, instance := range all {
			j.until(t, 3*i+2) // it leads
			instance.stop()
			if err := instance.end(t); err != nil {
				t.Error(err)
			}
		}
		if j.most != 1 || len(j.tokens) != 2 {
			t.Errorf("%d led at once, with tokens %v", j.most, j.tokens)
		}
	})
}

func TestWhatMakesNoSenseIsAnErrorAtOnce(t *testing.T) {
	l := world.Host(t, "127.0.0.1:1") // nobody is asked
	closed := world.Host(t, "127.0.0.1:1")
	java := ofJava(t, "127.0.0.1:1")
	_ = closed.Close()
	var none context.Context
	for what, c := range map[string]struct {
		ctx    context.Context
		locker fairlock.Interface
		name   string
		f      leader.Func
		option leader.Option
		want   error
	}{
		"no context":          {none, l, "active", never(t), leader.WithLock(), fairlock.ErrInvalid},
		"no Locker":           {t.Context(), nil, "active", never(t), leader.WithLock(), fairlock.ErrInvalid},
		"no name":             {t.Context(), l, "", never(t), leader.WithLock(), fairlock.ErrInvalid},
		"no function":         {t.Context(), l, "active", nil, leader.WithLock(), fairlock.ErrInvalid},
		"an option of nil":    {t.Context(), l, "active", never(t), nil, fairlock.ErrInvalid},
		"a hook of nil":       {t.Context(), l, "active", never(t), leader.OnElected(nil), fairlock.ErrInvalid},
		"another hook of nil": {t.Context(), l, "active", never(t), leader.OnLost(nil), fairlock.ErrInvalid},
		"a logger of nil":     {t.Context(), l, "active", never(t), leader.WithLogger(nil), fairlock.ErrInvalid},
		"a bad lock option":   {t.Context(), l, "active", never(t), leader.WithLock(fairlock.MaxWaiters(-1)), fairlock.ErrInvalid},
		"what it cannot do":   {t.Context(), java, "active", never(t), leader.WithLock(fairlock.Note("host")), errors.ErrUnsupported},
		"a closed Locker":     {t.Context(), closed, "active", never(t), leader.WithLock(), fairlock.ErrClosed},
	} {
		if err := leader.Run(c.ctx, c.locker, c.name, c.f, c.option); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The locks of Redisson have no tokens.
func TestInstancesOfALockWithoutTokensResignAndAreToldOfLosses(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		l, broken, ran := ofJava(t, addr), errors.New("broken"), 0
		var lost []error
		err := leader.Run(t.Context(), l, "active", func(ctx context.Context, _ *fairlock.Lease) error {
			if ran++; ran > 1 {
				return broken
			}
			if err := l.ForceUnlock(t.Context(), "active"); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			return nil
		}, leader.OnLost(func(err error) { lost = append(lost, err) }))
		if err != broken || ran != 2 || len(lost) != 1 {
			t.Errorf("Run returned %v after %d terms and the losses %v", err, ran, lost)
		}
	})
}

func ofJava(t *testing.T, addr string) *redisson.Locker {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	l := redisson.New(rdb)
	t.Cleanup(func() {
		_ = l.Close()
		_ = rdb.Close()
	})
	return l
}

func never(t *testing.T) leader.Func {
	return func(context.Context, *fairlock.Lease) error {
		t.Error("it leads")
		return nil
	}
}

// mute is a context of the user's own type that has no error when it is done.
type mute struct {
	context.Context
	done chan struct{}
}

func newMute(t *testing.T) *mute { return &mute{t.Context(), make(chan struct{})} }

func (m *mute) Done() <-chan struct{} { return m.done }

func (*mute) Err() error { return nil }

func panicOf(f func()) (got any) {
	defer func() { got = recover() }()
	f()
	return nil
}

// lines is a log that a test can wait for.
type lines struct{ written.Text }

func (l *lines) until(t *testing.T, has string) {
	t.Helper()
	world.Until(t, "the log says: "+has, func() bool { return strings.Contains(l.String(), has) })
}
