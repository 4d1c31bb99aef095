package gocronlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/integrations/gocronlock"
)

func elector(t *testing.T, l fairlock.Interface) *gocronlock.Elector {
	t.Helper()
	e, err := gocronlock.NewElector(l, "scheduler")
	must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	select {
	case <-e.Ready():
	case <-time.After(patience):
		t.Fatal("it neither leads nor waits")
	}
	return e
}

// elected returns when e leads.
func elected(t *testing.T, e *gocronlock.Elector) {
	t.Helper()
	eventually(t, "it is elected", func() bool { return e.IsLeader(t.Context()) == nil })
}

func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for limit := time.Now().Add(patience); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func TestOfThreeElectorsOneRunsTheJobs(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		var hosts []*host
		for range 3 {
			e := elector(t, open(t, addr))
			hosts = append(hosts, start(t, []gocron.SchedulerOption{gocron.WithDistributedElector(e)}, func() {}))
		}
		if n := count(t, hosts); n != 1 {
			t.Errorf("%d ran the job", n)
		}
		for _, h := range hosts {
			h.end(t)
		}
	})
}

func TestTheNextElectorLeadsWhenTheLeaderClosesOrLoses(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		a, b, c := elector(t, open(t, addr)), elector(t, open(t, addr, briefly)), elector(t, open(t, addr))
		if err := b.IsLeader(t.Context()); a.IsLeader(t.Context()) != nil || !errors.Is(err, gocronlock.ErrNotLeader) {
			t.Errorf("the first: %v, the second: %v", a.IsLeader(t.Context()), err)
		}
		first := a.Lease().Token()
		must(t, a.Close())
		elected(t, b) // long before the lease ends
		if err := a.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) || b.Lease().Token() <= first {
			t.Errorf("the first: %v; tokens %d and then %d", err, first, b.Lease().Token())
		}
		must(t, open(t, addr).ForceUnlock(t.Context(), "scheduler"))
		elected(t, c)
		eventually(t, "the one before has noticed", func() bool { return b.Lease() == nil })
		must(t, c.Close())
		elected(t, b) // it stood in line again
	})
}

func TestAnElectorOfAClosedLockerLeadsNoMoreAndSaysWhy(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		lockers := []*fairlock.Locker{open(t, addr), open(t, addr)}
		leads, follows := elector(t, lockers[0]), elector(t, lockers[1])
		for _, l := range lockers {
			must(t, l.Close())
		}
		must(t, leads.Close())
		must(t, follows.Close())
		for _, e := range []*gocronlock.Elector{leads, follows} {
			if err := e.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) {
				t.Errorf("it says %v", err)
			}
		}
		if err := follows.IsLeader(t.Context()); !errors.Is(err, fairlock.ErrClosed) {
			t.Errorf("who was in line says %v", err)
		}
	})
}
