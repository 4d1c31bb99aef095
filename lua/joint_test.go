package lua

import (
	"fmt"
	"testing"
	"time"
)

// joint is a lock that two clients hold as saga-7, with one waiter.
type joint struct {
	*site
	a, b, c  *party
	one, two string
	token    int64
	waiter   string
	place    Place
}

func eachJoint(t *testing.T, leaseOfA, leaseOfB time.Duration, test func(t *testing.T, j joint)) {
	t.Helper()
	each(t, func(t *testing.T, s *site) {
		j := joint{site: s, a: s.party("a"), b: s.party("b"), c: s.party("c")}
		j.one, j.two = j.a.owned("saga-7", leaseOfA), j.b.owned("saga-7", leaseOfB)
		j.token = j.b.takes(j.two)
		j.waiter, j.place = j.c.waits(usual)
		equal(t, "joint token", j.a.takes(j.one), j.token)
		test(t, j)
	})
}

func (j joint) free() bool { j.t.Helper(); return j.gone(j.keys.Record()) }

func TestAnExplicitOwnerIsGrantedWhatItHoldsWithTheSameToken(t *testing.T) {
	eachJoint(t, usual, time.Minute, func(t *testing.T, j joint) {
		now := int64(j.now()) / 1000
		end := j.ends(j.keys.Record())
		if end < now+55_000 || end > now+60_000 {
			t.Fatalf("the record ends at %d, now is %d", end, now)
		}
		equal(t, "longer hold", j.field(j.two), fmt.Sprint(end, ":1"))
		equal(t, "other hold", j.field(j.one) != "", true)
		third := j.a.owned("saga-7", brief) // the same client with a shorter lease
		state, answer := j.a.try(third)
		equal(t, "token", state.Grant.Token, j.token)
		equal(t, "remaining", state.Grant.Remaining, brief)
		equal(t, "holder", answer.Holder, "saga-7")
		equal(t, "end of the record", j.ends(j.keys.Record()), end)
		equal(t, "largest token", answer.Token, j.token)
		equal(t, "holds", len(j.a.inspects().Holds), 3)
		j.lined(j.waiter)
	})
}

func TestAJointHoldEndsWithItsLastTicket(t *testing.T) {
	eachJoint(t, usual, usual, func(t *testing.T, j joint) {
		j.a.leaves(j.one, j.token, Held)
		equal(t, "free", j.free(), false)
		j.a.leaves(j.one, j.token, Neither)
		j.c.hearsNothing()
		j.b.leaves(j.two, j.token, Held)
		j.c.granted(j.waiter)
	})
}

func TestTheRecordOfAJointHoldLivesToTheLatestDeadline(t *testing.T) {
	for verb, prolong := range both {
		t.Run(verb, func(t *testing.T) {
			eachJoint(t, usual, time.Minute, func(t *testing.T, j joint) {
				latest := func(ticket string) {
					t.Helper()
					equal(t, "hold", j.field(ticket), fmt.Sprint(j.ends(j.keys.Record()), ":1"))
				}
				latest(j.two)
				r := j.a.renewal(j.one, j.token)
				r.Lease = 40 * time.Second
				equal(t, "shorter than the other", prolong(j.a, r), r.Lease)
				latest(j.two)
				r.Lease = 2 * time.Minute
				equal(t, "longer than the other", prolong(j.a, r), r.Lease)
				latest(j.one)
				j.a.leaves(j.one, j.token, Held)
				latest(j.two)
				j.b.leaves(j.two, j.token, Held)
			})
		})
	}
}

func TestOneJointHoldExpiresWhileTheOtherLives(t *testing.T) {
	eachJoint(t, brief, usual, func(t *testing.T, j joint) {
		j.pass(brief)
		j.unchanged(func() {
			equal(t, "renewed", j.a.renews(j.a.renewal(j.one, j.token)), 0)
			equal(t, "reasserted", j.a.reasserts(j.a.renewal(j.one, j.token)), 0)
		})
		equal(t, "renewed by the other", j.b.renews(j.b.renewal(j.two, j.token)), usual)
		j.a.leaves(j.one, j.token, Neither)
		equal(t, "free", j.free(), false)
		equal(t, "expired hold", j.field(j.one), "")
		j.b.leaves(j.two, j.token, Held)
		j.c.granted(j.waiter)
	})
}

func TestTheLastLivingJointHoldFreesTheLockThoughAnExpiredOneIsStillWritten(t *testing.T) {
	eachJoint(t, brief, usual, func(t *testing.T, j joint) {
		j.pass(brief)
		j.b.leaves(j.two, j.token, Held)
		j.c.granted(j.waiter)
	})
}

func TestAnyJointHolderThatLeavesTakesExpiredHoldsWithIt(t *testing.T) {
	eachJoint(t, brief, usual, func(t *testing.T, j joint) {
		third := j.c.owned("saga-7", usual)
		j.c.takes(third)
		j.pass(brief)
		j.c.leaves(third, j.token, Held)
		equal(t, "expired hold", j.field(j.one), "")
		equal(t, "living hold", j.field(j.two) != "", true)
	})
}

func TestATicketWhoseJointHoldHasExpiredJoinsAnew(t *testing.T) {
	eachJoint(t, brief, usual, func(t *testing.T, j joint) {
		j.pass(brief)
		state, _ := j.a.enter(j.one)
		equal(t, "status", state.Status, Granted)
		equal(t, "token", state.Grant.Token, j.token)
		equal(t, "remaining", state.Grant.Remaining, brief)
	})
}

func TestAJointOwnerThatWaitsIsGrantedWithItsNextHeartbeat(t *testing.T) {
	for _, known := range []bool{true, false} {
		each(t, func(t *testing.T, s *site) {
			a, b, c := s.party("a"), s.party("b"), s.party("c")
			hold, token := a.holds(usual)
			one, two := b.owned("saga-7", usual), c.owned("saga-7", usual)
			b.queues(one)
			between, _ := a.waits(usual)
			place := c.queues(two)
			a.leaves(hold, token, Held)
			granted := b.granted(one)
			if !known {
				place = 0
			}
			state, answer := c.enter(two, place)
			equal(t, "status", state.Status, Granted)
			equal(t, "token", state.Grant.Token, granted)
			equal(t, "remaining", state.Grant.Remaining, usual)
			equal(t, "waiting", answer.Waiting, 1)
			s.lined(between)
		})
	}
}

func TestAnOwnerIsNobodyElse(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		a.takes(a.owned("saga-7", usual))
		for _, owner := range []string{"", "saga", "saga-70", "SAGA-7", "saga%2D7", "saga-7 ", "a:1"} {
			state, _ := b.try(b.owned(owner, usual))
			equal(t, "status of "+owner, state.Status, Taken)
		}
	})
}

func TestForceEndsAllJointHolds(t *testing.T) {
	eachJoint(t, usual, usual, func(t *testing.T, j joint) {
		forced, _ := j.c.forces(j.token)
		equal(t, "forced", forced, true)
		for ticket, p := range map[string]*party{j.one: j.a, j.two: j.b} {
			m := p.hears()
			told, err := ParseTicket(ticket)
			must(t, err)
			equal(t, "message", m, Message{News: Forces, Ticket: told, Record: j.keys.Record(), Token: j.token})
			equal(t, "reasserted", p.reasserts(p.renewal(ticket, j.token)), 0)
		}
		equal(t, "holder", j.field("owner"), "c:1")
	})
}

func TestAJointHoldWritesALostTokenAgain(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		token := a.takes(a.owned("saga-7", usual))
		must(t, s.rdb.Del(ctx, s.keys.Token()).Err())
		state, answer := b.enter(b.owned("saga-7", usual))
		equal(t, "token", state.Grant.Token, token)
		equal(t, "largest token", answer.Token, token)
		equal(t, "token key", s.rdb.Get(ctx, s.keys.Token()).Val(), fmt.Sprint(token))
	})
}

func TestTheTokenIsRememberedLongerThanAnyJointHoldLasts(t *testing.T) {
	eachJoint(t, time.Hour, usual, func(t *testing.T, j joint) {
		if token, record := j.ends(j.keys.Token()), j.ends(j.keys.Record()); token < record {
			t.Fatalf("the token key ends %v before the record", time.Duration(record-token)*time.Millisecond)
		}
	})
}

// One was told that it lasts for hours. Another has a short lease, and goes.
func TestNoJointHoldHasTheTokenKeyEndSoonerThanAnotherWasTold(t *testing.T) {
	for what, act := range map[string]func(j joint){
		"by joining":  func(j joint) { j.b.takes(j.b.owned("saga-7", usual)) },
		"by reassert": func(j joint) { j.b.reasserts(j.b.renewal(j.two, j.token)) },
	} {
		t.Run(what, func(t *testing.T) {
			eachJoint(t, usual, usual, func(t *testing.T, j joint) {
				r := j.a.renewal(j.one, j.token)
				r.Lease, r.Until = 0, j.now()+Micros(time.Hour.Microseconds())
				j.a.reasserts(r)
				told := j.ends(j.keys.Token())
				j.pass(10 * time.Millisecond)
				act(j)
				if end := j.ends(j.keys.Token()); end < told {
					t.Errorf("the token key ends %v sooner", time.Duration(told-end)*time.Millisecond)
				}
			})
		})
	}
}

func TestTheNextInLineIsToldWhenTheRecordEndsSoonerThanItKnows(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c, d := s.party("a"), s.party("b"), s.party("c"), s.party("d")
		one, other := a.owned("saga-7", usual), b.owned("saga-7", time.Hour)
		token := a.takes(one)
		b.takes(other)
		next, _ := c.waits(usual)
		d.waits(usual)
		b.leaves(other, token, Held)
		m := c.hears()
		equal(t, "message", m, Message{News: Recalls, Ticket: m.Ticket, Record: s.keys.Record()})
		equal(t, "of", m.Ticket.String(), next)
		d.hearsNothing()
		third := b.owned("saga-7", time.Second)
		b.takes(third)
		b.leaves(third, token, Held) // changes nothing
		c.hearsNothing()
		a.leaves(one, token, Held)
		c.granted(next)
	})
}
