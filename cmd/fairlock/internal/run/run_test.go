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
		for _, r := range []Command{{Lease: lease}, {Lease: time.Hour, FixedLease: &lease}, {Lease: time.Millisecond, FixedLease: &lease}} {
			if after, margin := r.killAfter(), fairlock.Margin(lease); after <= 0 || after > margin*3/4 {
				t.Errorf("a lease of %v: SIGKILL %v after SIGTERM, and the margin is %v", lease, after, margin)
			}
		}
	}
}

func TestByDefaultTheCommandIsDeadBeforeTheServerGivesAwayALockThatWasNeverRenewed(t *testing.T) {
	t.Parallel()
	r := Command{Lease: 30 * time.Second}
	p := Program{KillAfter: r.killAfter()}
	const claim = 3 * time.Second
	late := 50 * time.Millisecond // since the grant, as the command begins
	trusted := claim - fairlock.Margin(claim) - late
	if after := p.grace(trusted, trusted, trusted+late); after <= 0 || after > fairlock.Margin(claim)*3/4 {
		t.Errorf("a claim: SIGKILL %v after SIGTERM", after)
	}
	if after := p.grace(trusted, trusted+time.Second, time.Second); after > fairlock.Margin(claim)*3/4 {
		t.Errorf("another node's claim: SIGKILL %v after SIGTERM", after)
	}
	if after := p.grace(trusted, time.Second+27*time.Second, time.Second); after != p.KillAfter {
		t.Errorf("a claim that was renewed: SIGKILL %v after SIGTERM", after)
	}
	if after := p.grace(27*time.Second, 27*time.Second, 27*time.Second); after > p.KillAfter || after < p.KillAfter*9/10 {
		t.Errorf("a lock that was free: SIGKILL %v after SIGTERM", after)
	}
	if after := p.grace(trusted, 4*time.Second, 4*time.Second); after != p.KillAfter {
		t.Errorf("a lock that was renewed, and then forced: SIGKILL %v after SIGTERM", after)
	}
	p.insists = true
	if after := p.grace(trusted, trusted, trusted); after != p.KillAfter {
		t.Errorf("--kill-after is given: SIGKILL %v after SIGTERM", after)
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
