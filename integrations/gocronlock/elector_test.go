package gocronlock_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/leader"
	"github.com/fairlock/locks/integrations/gocronlock"
	"github.com/fairlock/locks/test/world"
)

func elector(t *testing.T, l fairlock.Interface) *gocronlock.Elector {
	t.Helper()
	return electorOf(t, l, "scheduler")
}

func electorOf(t *testing.T, l fairlock.Interface, name string) *gocronlock.Elector {
	t.Helper()
	e, err := gocronlock.NewElector(l, name)
	world.Must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	world.Next(t, e.Ready())
	return e
}

// elected returns when e leads.
func elected(t *testing.T, e *gocronlock.Elector) {
	t.Helper()
	world.Until(t, "it is elected", func() bool { return e.IsLeader(t.Context()) == nil })
}

func TestOfThreeElectorsOneRunsTheJobs(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		var hosts []*host
		for range 3 {
			e := elector(t, world.Host(t, addr))
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
	world.OnBoth(t, func(t *testing.T, addr string) {
		a, b, c := elector(t, world.Host(t, addr)), elector(t, world.Host(t, addr, fairlock.WithLease(world.CalmLease))), elector(t, world.Host(t, addr))
		if err := b.IsLeader(t.Context()); a.IsLeader(t.Context()) != nil || !errors.Is(err, gocronlock.ErrNotLeader) {
			t.Errorf("the first: %v, the second: %v", a.IsLeader(t.Context()), err)
		}
		first := a.Lease().Token()
		world.Must(t, a.Close())
		elected(t, b) // long before the lease ends
		if err := a.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) || b.Lease().Token() <= first {
			t.Errorf("the first: %v; tokens %d and then %d", err, first, b.Lease().Token())
		}
		world.Must(t, world.Host(t, addr).ForceUnlock(t.Context(), "scheduler"))
		elected(t, c)
		world.Until(t, "the one before has noticed", func() bool { return b.Lease() == nil })
		world.Must(t, c.Close())
		elected(t, b) // it stood in line again
		world.Must(t, b.Close())
		lease, err := world.Host(t, addr).TryLock(t.Context(), "scheduler") // Close returns when all is done
		world.Must(t, err)
		world.Must(t, lease.Unlock(t.Context()))
	})
}

func TestCloseReturnsWhenTheInstanceStandsNoMore(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		var over atomic.Bool
		elected := make(chan struct{})
		e, err := gocronlock.NewElector(world.Host(t, addr), "scheduler", leader.OnElected(func(*fairlock.Lease) {
			close(elected)
			time.Sleep(20 * time.Millisecond) // Close is called meanwhile
			over.Store(true)
		}))
		world.Must(t, err)
		world.Next(t, elected)
		world.Must(t, e.Close())
		if !over.Load() {
			t.Error("Close did not wait for the hook")
		}
	})
}

func TestCloseInAHookDoesNotWaitForItself(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		for name, hook := range map[string]func(closes func()) leader.Option{
			"OnElected": func(closes func()) leader.Option { return leader.OnElected(func(*fairlock.Lease) { closes() }) },
			"OnLost":    func(closes func()) leader.Option { return leader.OnLost(func(error) { closes() }) },
		} {
			made, closed := make(chan *gocronlock.Elector, 1), make(chan error, 1)
			e, err := gocronlock.NewElector(world.Host(t, addr, fairlock.WithLease(world.CalmLease)), name,
				hook(func() { closed <- (<-made).Close() }))
			world.Must(t, err)
			made <- e
			if name == "OnLost" {
				elected(t, e)
				world.Must(t, world.Host(t, addr).ForceUnlock(t.Context(), name))
			}
			world.Must(t, world.Next(t, closed))
			world.Must(t, e.Close()) // waits for the end
			lease, err := world.Host(t, addr).TryLock(t.Context(), name)
			world.Must(t, err)
			world.Must(t, lease.Unlock(t.Context()))
		}
	})
}

func TestAnElectorOfAClosedLockerLeadsNoMoreAndSaysWhy(t *testing.T) {
	log := logged(t)
	world.OnBoth(t, func(t *testing.T, addr string) {
		lockers := []*fairlock.Locker{world.Host(t, addr), world.Host(t, addr)}
		name := "scheduler@" + addr // both servers have one log
		leads, follows := electorOf(t, lockers[0], name), electorOf(t, lockers[1], name)
		for _, l := range slices.Backward(lockers) { // else who follows might lead first
			world.Must(t, l.Close())
		}
		world.Until(t, "the log says so of both", func() bool {
			return strings.Count(log.String(), `stands for election no more, and runs no job" name=`+name) == 2
		})
		world.Must(t, leads.Close())
		world.Must(t, follows.Close())
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

func TestAnElectorThatEndsBeforeItIsInLineKeepsNobodyWaiting(t *testing.T) {
	e, err := gocronlock.NewElector(world.Host(t, "127.0.0.1:1"), "scheduler") // nothing listens there
	world.Must(t, err)
	world.Must(t, e.Close())
	select {
	case <-e.Ready():
	default:
		t.Error("who waits until it is ready waits for ever")
	}
}
