package rules

import (
	"testing"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/clocks"
)

// held is a hold of that lease, with one Lease on it.
func held(lease time.Duration, now time.Time) Hold {
	h := Begin(Term{lease, now.Add(lease)}, lease, false, now)
	h.LeaseGiven(now)
	return h
}

func TestAMachineThatWasSuspendedKnowsNoTokenThatTheServerHasForgotten(t *testing.T) {
	var m Memory
	now := time.Now()
	m.Note("a", Known{5, time.Minute}, now)
	woke := clocks.Suspended(now, lua.TokenTTL)
	if got := m.Recall("a", woke); got != (Known{}) {
		t.Errorf("it recalls %+v", got)
	}
	m.Note("b", Known{1, time.Minute}, woke)
	if got := m.Recall("a", woke); got != (Known{}) {
		t.Errorf("after it noted another one, it recalls %+v", got)
	}
}

func TestAfterASuspensionALeaseHasWhatTheWallClockLeaves(t *testing.T) {
	now := time.Now()
	h := held(time.Hour, now)
	woke := clocks.Suspended(now, 50*time.Minute)
	if !h.AskFor(30*time.Minute, true, woke) {
		t.Error("a nested call that asks for half an hour has that, it is said")
	}
	h.Asks(2*time.Hour, now)
	h.Renewed(now, 2*time.Hour, 1)
	const left = 70*time.Minute - time.Second
	if got, want := h.ForRenewal(woke), left-Margin(2*time.Hour)/10; got != want {
		t.Errorf("a renewal asks for %v, want %v", got, want)
	}
}

func TestARenewalAfterASuspensionProlongsTheTrust(t *testing.T) {
	now := time.Now()
	h := held(30*time.Second, now)
	h.Asks(time.Hour, now)
	h.Renewed(now, time.Hour, 1)
	woke := clocks.Suspended(now, time.Hour-4*time.Minute)
	late := woke.Add(2 * time.Minute) // half a minute before the trust in that hour ends
	h.Renewed(late, h.ForRenewal(late), 1)
	if at := late.Add(90 * time.Second); !h.Live(at) {
		t.Errorf("trusted until %v, and the server keeps it", h.TrustEnds)
	}
}

func TestARenewalThatWasDueDuringASuspensionGoesOutAtOnce(t *testing.T) {
	now := time.Now()
	h := held(30*time.Second, now)
	woke := clocks.Suspended(now, 20*time.Second)
	if h.StartRenewal(woke) {
		t.Fatal("it is due by the monotonic clock, too")
	}
	h.Woke(woke)
	if !h.StartRenewal(woke) {
		t.Error("it is not due")
	}
	h.RenewAt = time.Time{} // of a lease that is not renewed
	if h.Woke(woke); !h.RenewAt.IsZero() {
		t.Error("a lease that is not renewed is")
	}
}

func TestAReleaseThatIsAnsweredAfterASuspensionDoesNotCountAsCleanOnceItsLeaseHasEnded(t *testing.T) {
	now := time.Now()
	h := held(30*time.Second, now)
	h.Release()
	h.Unsure = true // it was sent under trust, and not answered
	if got, why := h.Released(lua.Neither, nil, true, clocks.Suspended(now, time.Minute), false); got != Missing || why != Uncertain {
		t.Errorf("%d because of %d", got, why)
	}
}

func TestALossThatASuspensionMadeSaysWhenTrustHadEnded(t *testing.T) {
	now := time.Now()
	h := held(30*time.Second, now)
	end := h.TrustEnds
	h.Lose(Expired, clocks.Suspended(now, time.Hour), false)
	if !h.TrustEnds.Equal(end) {
		t.Errorf("trust ended at %v, it is said, not at %v", h.TrustEnds, end)
	}
}

func TestAGrantWhoseAnswerASuspensionHeldUpIsNotTaken(t *testing.T) {
	now := time.Now()
	w := Waiter{Began: now, Lease: time.Minute}
	g := &lua.Grant{Token: 1, Remaining: lua.Claim}
	if s := w.granted(g, now, clocks.Suspended(now, time.Minute), false); s.Do == Take {
		t.Error("it is taken")
	}
	w = Waiter{Began: now, Lease: time.Minute}
	m := &lua.Message{News: lua.Grants, Token: 1, At: 1, Claim: lua.Claim}
	if s := w.grantHeard(m, clocks.Suspended(now, time.Minute), 0); s.Do == Take {
		t.Error("by a message, it is taken")
	}
}
