package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestByDefaultTheCommandIsDeadBeforeTheServerGivesTheLockToAnother(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{100 * time.Millisecond, time.Second, 30 * time.Second, time.Hour} {
		for _, r := range []Command{{Lease: &lease}, {FixedLease: &lease}} {
			if after, margin := r.killAfter(), fairlock.Margin(lease); after <= 0 || after > margin*3/4 {
				t.Errorf("a lease of %v: SIGKILL %v after SIGTERM, and the margin is %v", lease, after, margin)
			}
		}
	}
}

func TestByDefaultTheCommandIsDeadBeforeTheServerGivesAwayALockThatWasNeverRenewed(t *testing.T) {
	t.Parallel()
	r := Command{}
	p := Program{KillAfter: r.killAfter()}
	const claim = 3 * time.Second
	since := 50 * time.Millisecond // the grant, as the command begins
	trusted := claim - fairlock.Margin(claim) - since
	if after := p.grace(trusted, trusted, trusted+since, 0); after <= 0 || after > fairlock.Margin(claim)*3/4 {
		t.Errorf("a claim: SIGKILL %v after SIGTERM", after)
	}
	if after := p.grace(trusted, trusted+time.Second, time.Second, 0); after > fairlock.Margin(claim)*3/4 {
		t.Errorf("another node's claim: SIGKILL %v after SIGTERM", after)
	}
	if after := p.grace(trusted, time.Second+27*time.Second, time.Second, 0); after != p.KillAfter {
		t.Errorf("a claim that was renewed: SIGKILL %v after SIGTERM", after)
	}
	if after := p.grace(27*time.Second, 27*time.Second, 27*time.Second, 0); after > p.KillAfter || after < p.KillAfter*9/10 {
		t.Errorf("a lock that was free: SIGKILL %v after SIGTERM", after)
	}
	if after := p.grace(trusted, 4*time.Second, 4*time.Second, 0); after != p.KillAfter {
		t.Errorf("a lock that was renewed, and then forced: SIGKILL %v after SIGTERM", after)
	}
	p.insists = true
	if after := p.grace(trusted, trusted, trusted, 0); after != p.KillAfter {
		t.Errorf("--kill-after is given: SIGKILL %v after SIGTERM", after)
	}
}

func TestALossThatIsNoticedLateLeavesOnlyTheRestOfTheGrace(t *testing.T) {
	t.Parallel()
	r := Command{}
	p := Program{KillAfter: r.killAfter()}
	const free, claim = 27 * time.Second, 2700 * time.Millisecond // for how long they are trusted
	for _, test := range []struct{ first, late, want time.Duration }{
		{free, 0, p.KillAfter},
		{free, time.Second, p.KillAfter - time.Second},
		{free, time.Hour, 0},
		{claim, 50 * time.Millisecond, 150 * time.Millisecond},
		{claim, 250 * time.Millisecond, 0},
		{claim, time.Second, 0},
	} {
		if after := p.grace(test.first, test.first, test.first+test.late, test.late); after != test.want {
			t.Errorf("trusted for %v, noticed %v late: SIGKILL %v after SIGTERM, want %v", test.first, test.late, after, test.want)
		}
	}
	p.insists = true
	if after := p.grace(free, free, free+time.Hour, time.Hour); after != p.KillAfter {
		t.Errorf("--kill-after is given: SIGKILL %v after SIGTERM", after)
	}
}

func TestTheLossOfALockThatIsTakenAwayIsNotLate(t *testing.T) {
	t.Parallel()
	locks := locktest.New(t, fairlock.WithLease(time.Second))
	for why, lose := range map[string]func(*fairlock.Lease) error{
		"forced": func(l *fairlock.Lease) error { locks.Lose(l); return nil },
		"vanished": func(l *fairlock.Lease) error {
			return locks.Server.Client().Del(t.Context(), "fairlock:lock:{"+l.Name()+"}").Err()
		},
	} {
		lease, err := locks.Lock(t.Context(), why)
		if err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		if err := lose(lease); err != nil {
			t.Fatal(err)
		}
		<-lease.Done()
		if trusted := lease.Deadline(); trusted.Before(before) || late(trusted, trusted) != 0 || late(trusted, trusted.Add(time.Second)) != time.Second {
			t.Errorf("%s: it counts from %v before it on", why, before.Sub(trusted))
		}
	}
}

func TestACommandWhoseLockIsLostBeforeItBeginsIsNotStarted(t *testing.T) {
	locks := locktest.New(t)
	lease, err := locks.Lock(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	locks.Lose(lease)
	marker := filepath.Join(t.TempDir(), "started")
	p, err := lookUp([]string{"touch", marker})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.run(lease, nil)
	if exit.Code(err) != exit.Lost || !strings.Contains(err.Error(), "was not started") {
		t.Errorf("it says %v", err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the command was started beside the next holder's")
	}
}
