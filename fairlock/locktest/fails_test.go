package locktest_test

import (
	"fmt"
	"regexp"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/locktest"
)

// trial is a test that may fail.
type trial struct {
	testing.TB
	said string
}

func (f *trial) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failing returns how a test ends that may fail.
func failing(t *testing.T, test func(tb testing.TB)) string {
	t.Helper()
	f := &trial{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		test(f)
	}()
	<-ended
	return f.said
}

func TestAControlThatCannotDoWhatItSaysFailsTheTestAndSaysWhy(t *testing.T) {
	for want, test := range map[string]func(t *testing.T, locks *locktest.Locks){
		`^locktest: Lose: there is nothing to lose: .*not held`: func(_ *testing.T, locks *locktest.Locks) {
			locks.Lose(nil)
		},
		`^locktest: Lose: there is nothing to lose: .*"x".*not held`: func(t *testing.T, locks *locktest.Locks) {
			lease := lock(t, locks, "x")
			unlock(t, lease)
			locks.Lose(lease)
		},
		`^locktest: Lose: the lock "x" with token \d+ is not of this server, or has another prefix$`: func(t *testing.T, locks *locktest.Locks) {
			locks.HoldElsewhere("x")
			locks.Lose(lock(t, locktest.New(t), "x"))
		},
		`^locktest: Lose: the lock "y" with token \d+ is not of this server, or has another prefix$`: func(t *testing.T, locks *locktest.Locks) {
			locks.Lose(lock(t, locks.Elsewhere(fairlock.WithPrefix("app")), "y"))
		},
		`^locktest: HoldElsewhere: .*"x": .*held`: func(t *testing.T, locks *locktest.Locks) {
			lock(t, locks, "x")
			locks.HoldElsewhere("x")
		},
		`^locktest: HoldElsewhere: .*invalid`: func(_ *testing.T, locks *locktest.Locks) {
			locks.HoldElsewhere("")
		},
		`^locktest: QueueElsewhere: a call for "x" is not in line: nobody held the lock$`: func(_ *testing.T, locks *locktest.Locks) {
			locks.QueueElsewhere("x", 3)
		},
		`^locktest: WaitersOf: .*invalid`: func(_ *testing.T, locks *locktest.Locks) {
			locks.WaitersOf("")
		},
		`^locktest: AwaitWaiters: 1 in line for the lock "x" after 30s, want 2$`: func(_ *testing.T, locks *locktest.Locks) {
			locks.HoldElsewhere("x")
			locks.QueueElsewhere("x", 1)
			locks.AwaitWaiters("x", 2)
		},
		`^locktest: Lose: the server is paused; call Server.Resume first$`: func(t *testing.T, locks *locktest.Locks) {
			lease := lock(t, locks, "x")
			locks.Server.Pause()
			locks.Lose(lease)
		},
		`^locktest: AwaitWaiters: the server is stopped; call Server.Resume first$`: func(_ *testing.T, locks *locktest.Locks) {
			locks.Server.Stop()
			locks.AwaitWaiters("x", 1)
		},
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := failing(t, func(tb testing.TB) { test(t, locktest.New(tb)) })
				if !regexp.MustCompile(want).MatchString(got) {
					t.Errorf("it fails with %q", got)
				}
			})
		})
	}
}

func TestALockIsHeldElsewhereOnceWhateverTheIdentity(t *testing.T) {
	got := failing(t, func(tb testing.TB) {
		locks := locktest.New(tb, fairlock.WithIdentity(fairlock.ByGoroutine))
		locks.HoldElsewhere("x")
		locks.HoldElsewhere("x")
	})
	if !regexp.MustCompile(`^locktest: HoldElsewhere: .*"x": .*held`).MatchString(got) {
		t.Errorf("it fails with %q", got)
	}
}
