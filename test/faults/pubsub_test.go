package faults

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// cuts ends every subscription connection.
func (f *faulty) cuts() int64 { return f.Direct.ClientKillByFilter(background, "TYPE", "pubsub").Val() }

// listenToStay reports whether n connections subscribe, and the same a moment later. After a cut
// go-redis may subscribe by itself: the Locker soon ends such a connection.
func (f *faulty) listenToStay(n int) bool {
	ids := func() (ids []string) {
		clients, _ := f.Direct.Do(background, "CLIENT", "LIST", "TYPE", "pubsub").Text()
		for client := range strings.Lines(clients) {
			id, _, _ := strings.Cut(client, " ")
			ids = append(ids, id)
		}
		return ids
	}
	before := ids()
	if len(before) != n {
		return false
	}
	time.Sleep(30 * time.Millisecond)
	return slices.Equal(ids(), before)
}

// nobodyIsBlind returns when the server takes no client for one whose subscription it does not see.
// Such a client is handed the lock unheard.
func (f *faulty) nobodyIsBlind(name string) {
	f.Helper()
	f.Until("nobody passes for blind", func() bool { return f.Direct.ZCount(background, f.Keys(name).Waiters(), "-inf", "(0").Val() == 0 })
	f.Until("no request is under way", redistest.Settled(f, f.Direct))
}

// queueMany has n calls wait for x, of four Lockers at random. waits are in the order of their
// arrival.
func (f *faulty) queueMany(n int, options ...fairlock.Option) (waits []*world.Wait, of map[*world.Wait]*world.User) {
	f.Helper()
	of = make(map[*world.Wait]*world.User)
	users := []*world.User{f.Beside(options...), f.Beside(options...), f.Beside(options...), f.Beside(options...)}
	dice := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		u := users[dice.IntN(4)]
		w := u.Queues("x", i+1)
		waits, of[w] = append(waits, w), u
	}
	f.Heard(4)
	return waits, of
}

func TestNoWaiterLosesItsPlaceHoweverOftenItsSubscriptionIsCut(t *testing.T) {
	f := newFaulty(t)
	lease := f.Beside().Locks("x")
	waits, _ := f.queueMany(32)
	cut := int64(0)
	for i, w := range waits {
		for range 2 {
			cut += f.cuts()
			time.Sleep(20 * time.Millisecond)
		}
		f.Until("everybody is back", func() bool {
			return f.Line("x") == len(waits)-i && f.listenToStay(4)
		})
		f.Unlocks(lease)
		lease = w.Gets()
		f.Keeps(lease)
	}
	f.Unlocks(lease)
	f.nobody("x")
	t.Logf("%d connections cut", cut)
}

func TestNobodyWaitsLongerThanAReconnectWhileSubscriptionsAreCutAgainAndAgain(t *testing.T) {
	f := newFaulty(t)
	lease := f.Beside().Locks("x")
	waits, of := f.queueMany(200)

	stop := f.cutsAgainAndAgain()

	const told = 2400 * time.Millisecond // to be asked for, or to outlast a claim, would take longer
	var worst time.Duration
	stood := f.stalls()
	var served []*world.Wait
	pending := slices.Clone(waits)
	for len(pending) > 0 {
		stood() // before the hand-over, it excuses nothing
		free := time.Now()
		f.Unlocks(lease)
		next := f.any(pending)
		worst = max(worst, next.At.Sub(free)-stood())
		lease = next.Gets()
		served = append(served, next)
		pending = slices.DeleteFunc(pending, func(w *world.Wait) bool { return w == next })
		time.Sleep(10 * time.Millisecond)
	}
	cut := stop()
	f.Unlocks(lease)

	overtaken := 0
	for i, w := range waits {
		overtaken = max(overtaken, slices.Index(served, w)-i)
		for _, later := range waits[i+1:] {
			if of[w] == of[later] && cmp.Compare(w.Lease.Token(), later.Lease.Token()) > 0 {
				t.Errorf("arrival %d was overtaken by another of its own Locker", i)
			}
		}
	}
	t.Logf("%d connections cut; the longest hand-over took %v; nobody was served more than %d turns late", cut, worst, overtaken)
	if worst > told {
		t.Errorf("a hand-over took %v", worst)
	}
	if cut == 0 {
		t.Error("that shows nothing")
	}
	// A call out of reach at its turn is passed over; a call that lost its place would be the last.
	if overtaken > 50 {
		t.Errorf("somebody was served %d turns late", overtaken)
	}
	f.nobody("x")
}

// cutsAgainAndAgain cuts the subscriptions of four Lockers until stop is called, which returns how
// many connections were cut.
func (f *faulty) cutsAgainAndAgain() (stop func() (cut int64)) {
	ends, ended := make(chan struct{}), make(chan int64)
	go func() {
		for cut := int64(0); ; {
			select {
			case <-ends:
				ended <- cut
				return
			case <-time.After(30 * time.Millisecond):
			}
			// A busy machine gets no chance if it is cut off before it is back.
			if len(f.Direct.PubSubChannels(background, "*").Val()) == 4 {
				cut += f.cuts()
			}
		}
	}()
	return func() int64 {
		close(ends)
		return <-ended
	}
}

// any returns the first of the calls that returns.
func (f *faulty) any(waits []*world.Wait) (first *world.Wait) {
	f.Helper()
	f.Until("somebody has the lock", func() bool {
		i := slices.IndexFunc(waits, (*world.Wait).HasReturned)
		if i >= 0 {
			first = waits[i]
		}
		return i >= 0
	})
	return first
}

func TestAWaiterThatWasPassedOverIsNotOvertakenByALaterOneOfItsOwnLocker(t *testing.T) {
	passedOver(t, func(*world.User) []*world.Wait { return nil })
}

func TestAWaiterThatWasPassedOverIsNotOvertakenBecauseItsLockerHasANewcomer(t *testing.T) {
	passedOver(t, func(a *world.User) []*world.Wait { return []*world.Wait{a.Queues("x", 3)} })
}

// returns is an Observer that reports when a Locker has its subscription again.
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

// passedOver has the first of a Locker's two waiters passed over. Before that waiter is back,
// meanwhile lets the Locker do something.
func passedOver(t *testing.T, meanwhile func(a *world.User) []*world.Wait) {
	t.Helper()
	f := newFaulty(t)
	back := make(returns, 1)
	a, b := f.Behind(), f.Beside(fairlock.WithObserver(back))
	lease := f.Beside().Locks("x")
	first, then, later, last := a.Queues("x", 1), b.Queues("x", 2), a.Queues("x", 3), b.Queues("x", 4)
	f.Heard(2)
	f.nobodyIsBlind("x")
	enter := f.Verb("enter")
	returning := func(args []string) bool { // all its tickets have places
		for i, place := range args[1:] {
			if place == "0" && isTicket(args[i]) {
				return false
			}
		}
		return enter(args)
	}
	subscribes := f.All(faultproxy.Command("SUBSCRIBE"), faultproxy.HoldRequest())
	enters := f.All(returning, faultproxy.HoldRequest())
	f.cuts()
	// b is back. If go-redis subscribes by itself, the Locker undoes that.
	<-back
	f.Heard(1)
	f.Unlocks(lease)
	lease = then.Gets() // a was out of reach at its turn
	subscribes.Remove()
	subscribes.Release()
	f.Heard(2) // the server sees a listen again, but a has not yet said which of its calls wait
	more := meanwhile(a)
	f.Unlocks(lease)
	f.Until("somebody has the lock", func() bool { return f.Holder("x") != 0 })
	enters.Remove()
	enters.Release()
	var all sync.WaitGroup
	all.Go(last.PassesOn) // last may have passed both: they were out of reach
	f.Served(append([]*world.Wait{first, later}, more...)...)
	all.Wait()
	f.nobody("x")
}

// The heartbeat of more than 500 waiters is several requests.
func TestOfManyWaitersWhoWereOutOfReachTheFirstHasTheLockFirst(t *testing.T) {
	f := newFaulty(t)
	a, b := f.Behind(), f.Beside()
	holder := b.Locks("x")
	first := a.Queues("x", 1)
	var rest []*world.Wait
	for range lua.MaxTickets {
		rest = append(rest, a.Asks(background, "x"))
	}
	f.Until("all wait", func() bool { return f.Line("x") == 1+len(rest) })
	f.Heard(1)
	f.nobodyIsBlind("x")
	_, ticket, _ := strings.Cut(f.Direct.LIndex(background, f.Keys("x").Queue(), 0).Val(), ":") // it follows its place
	subscribes := f.All(faultproxy.Command("SUBSCRIBE"), faultproxy.HoldRequest())
	asks := f.All(f.Verb("enter", ticket), faultproxy.HoldRequest())
	f.cuts()
	subscribes.WaitHit(f, 1, world.Patience)
	f.Unlocks(holder)
	if n := f.Line("x"); n != 0 {
		f.Fatalf("%d in line", n)
	}
	subscribes.Remove()
	subscribes.Release()
	asks.WaitHit(f, 2, world.Patience) // the first of them went unanswered
	if token := f.Holder("x"); token != 0 {
		f.Errorf("%d was given before the first had asked", token)
	}
	asks.Remove()
	asks.Release()
	f.Unlocks(first.Gets())
	f.Pass(rest...)
}
