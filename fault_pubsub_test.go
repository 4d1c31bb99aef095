package fairlock_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/faultproxy"
)

// cuts ends every subscription connection.
func (f *faulty) cuts() int64 { return f.direct.ClientKillByFilter(faultCtx, "TYPE", "pubsub").Val() }

// crowd is n calls that wait for x, of four Lockers at random, in the order of their arrival.
func (f *faulty) crowd(n int, options ...fairlock.Option) (waits []*faultWait, of map[*faultWait]*faultUser) {
	f.Helper()
	of = make(map[*faultWait]*faultUser)
	users := []*faultUser{f.beside(options...), f.beside(options...), f.beside(options...), f.beside(options...)}
	dice := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		u := users[dice.IntN(4)]
		w := u.queues("x", i+1)
		waits, of[w] = append(waits, w), u
	}
	f.heard(4)
	return waits, of
}

func TestNoWaiterLosesItsPlaceHoweverOftenItsSubscriptionIsCut(t *testing.T) {
	f := newFaulty(t)
	lease := f.beside().locks("x")
	waits, _ := f.crowd(32)
	cut := int64(0)
	for i, w := range waits {
		for range 2 {
			cut += f.cuts()
			time.Sleep(20 * time.Millisecond)
		}
		f.until("everybody is back", func() bool {
			return f.line("x") == len(waits)-i && len(f.direct.PubSubChannels(faultCtx, "*").Val()) == 4
		})
		f.unlocks(lease)
		lease = w.gets()
		f.keeps(lease)
	}
	f.unlocks(lease)
	f.nobody("x")
	t.Logf("%d connections cut", cut)
}

func TestNobodyWaitsLongerThanAReconnectWhileSubscriptionsAreCutAgainAndAgain(t *testing.T) {
	f := newFaulty(t)
	lease := f.beside().locks("x")
	waits, of := f.crowd(200)

	stop := make(chan struct{})
	var all sync.WaitGroup
	cut := int64(0)
	all.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(30 * time.Millisecond):
				cut += f.cuts()
			}
		}
	})

	var worst time.Duration
	var served []*faultWait
	pending := slices.Clone(waits)
	for free := time.Now(); len(pending) > 0; free = time.Now() {
		f.unlocks(lease)
		next := f.any(pending)
		worst = max(worst, next.at.Sub(free))
		lease = next.gets()
		served = append(served, next)
		pending = slices.DeleteFunc(pending, func(w *faultWait) bool { return w == next })
		time.Sleep(10 * time.Millisecond)
	}
	close(stop)
	all.Wait()
	f.unlocks(lease)

	overtaken := 0
	for i, w := range waits {
		overtaken = max(overtaken, slices.Index(served, w)-i)
		for _, later := range waits[i+1:] {
			if of[w] == of[later] && cmp.Compare(w.lease.Token(), later.lease.Token()) > 0 {
				t.Errorf("arrival %d was overtaken by another of its own Locker", i)
			}
		}
	}
	t.Logf("%d connections cut; the longest hand-over took %v; nobody was served more than %d turns late", cut, worst, overtaken)
	if worst > time.Second {
		t.Errorf("a hand-over took %v", worst)
	}
	if overtaken > 50 { // whoever is out of reach at its turn is passed over; whoever lost its place would be the last
		t.Errorf("somebody was served %d turns late", overtaken)
	}
	f.nobody("x")
}

// any is the first of the calls to return.
func (f *faulty) any(waits []*faultWait) (first *faultWait) {
	f.Helper()
	f.until("somebody has the lock", func() bool {
		i := slices.IndexFunc(waits, (*faultWait).hasReturned)
		if i >= 0 {
			first = waits[i]
		}
		return i >= 0
	})
	return first
}

func TestAWaiterThatWasPassedOverIsNotOvertakenByALaterOneOfItsOwnLocker(t *testing.T) {
	passedOver(t, func(*faultUser) []*faultWait { return nil })
}

func TestAWaiterThatWasPassedOverIsNotOvertakenBecauseItsLockerHasANewcomer(t *testing.T) {
	passedOver(t, func(a *faultUser) []*faultWait { return []*faultWait{a.queues("x", 3)} })
}

// returns tells that a Locker has its subscription again.
type returns chan struct{}

func (r returns) Observe(e fairlock.Event) {
	if e.Kind == fairlock.Reconnected {
		r <- struct{}{}
	}
}

func isTicket(arg string) bool {
	_, err := lua.ParseTicket(arg)
	return err == nil
}

// passedOver has the first of a Locker's two waiters passed over and lets the Locker do something before the waiter is back.
func passedOver(t *testing.T, meanwhile func(a *faultUser) []*faultWait) {
	t.Helper()
	f := newFaulty(t)
	back := make(returns, 1)
	a, b := f.behind(), f.beside(fairlock.WithObserver(back))
	lease := f.beside().locks("x")
	first, then, later, last := a.queues("x", 1), b.queues("x", 2), a.queues("x", 3), b.queues("x", 4)
	f.heard(2)
	f.until("nobody passes for blind", func() bool { return f.direct.ZCount(faultCtx, f.keys("x").Waiters(), "-inf", "(0").Val() == 0 })
	enter := f.verb("enter")
	returning := func(args []string) bool { // all its tickets have places
		for i, place := range args[1:] {
			if place == "0" && isTicket(args[i]) {
				return false
			}
		}
		return enter(args)
	}
	subscribes := f.all(faultproxy.Command("SUBSCRIBE"), faultproxy.HoldRequest())
	enters := f.all(returning, faultproxy.HoldRequest())
	f.cuts()
	<-back // b; what go-redis subscribes by itself, the Locker takes down again
	f.heard(1)
	f.unlocks(lease)
	lease = then.gets() // a was out of reach when it was its turn
	subscribes.Remove()
	subscribes.Release()
	f.heard(2) // and is heard again, but has not said yet who waits
	more := meanwhile(a)
	f.unlocks(lease)
	f.until("somebody has the lock", func() bool { return f.holder("x") != 0 })
	enters.Remove()
	enters.Release()
	var all sync.WaitGroup
	all.Go(last.passesOn) // which may have passed both: they were out of reach
	f.served(append([]*faultWait{first, later}, more...)...)
	all.Wait()
	f.nobody("x")
}
