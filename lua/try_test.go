package lua

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/faultproxy"
)

func TestATryOfAHeldLockTellsTheHolderAndChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.deaf("c")
		a.holds(usual)
		b.waits(usual)
		s.unchanged(func() {
			state, answer := c.try(c.ticket(usual))
			equal(t, "state", state, TicketState{Status: Taken})
			equal(t, "holder", answer.Holder, "a:1")
			equal(t, "lease", answer.Lease, usual)
			equal(t, "remaining", answer.Remaining > 0, true)
			equal(t, "waiting", answer.Waiting, 1)
		})
	})
}

func TestATryTakesAFreeLock(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.deaf("a")
		ticket := a.ticket(usual)
		state, _ := a.try(ticket)
		equal(t, "status", state.Status, Granted)
		equal(t, "remaining", state.Grant.Remaining, usual)
		again, _ := a.try(ticket)
		equal(t, "again", again.Status, Granted)
		equal(t, "token", again.Grant.Token, state.Grant.Token)
	})
}

func TestATryThatTakesAFreeLockIsToldHowManyNumbersBelowItsTokenAreUnused(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.deaf("a")
		last := int64(0)
		for i := range 3 {
			ticket := a.ticket(usual)
			state, _ := a.try(ticket)
			if i == 0 { // the server may have forgotten
				last = state.Grant.Token - 1
			}
			equal(t, "unused", state.Unused, state.Grant.Token-last-1)
			last = state.Grant.Token
			a.leaves(ticket, last, Held)
		}
		last += 1e12 // the clock was set back
		s.tokens(last)
		ticket := a.ticket(usual)
		state, _ := a.try(ticket)
		equal(t, "token", state.Grant.Token, last+1)
		equal(t, "unused", state.Unused, 0)
		a.leave(LeaveTicket{Ticket: parsed(ticket), Token: last + 1, Retire: true})
		s.tokens(int64(s.now()) - 500)
		state, _ = a.try(a.ticket(usual)) // with a mark, nothing is as usual
		equal(t, "unused after a mark", state.Unused >= 499, true)
	})
}

func TestATryOfAFreeLockLetsTheLineGoFirst(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		a.holds(usual)
		first, _ := b.waits(usual)
		second, _ := b.waits(usual)
		s.endRecord()
		state, answer := c.try(c.ticket(usual))
		equal(t, "status", state.Status, Taken)
		equal(t, "holder", answer.Holder, "b:1")
		equal(t, "token", answer.Token, b.granted(first))
		s.lined(second)
	})
}

func TestATryOfAClientThatWaitsCarriesTheGrantOfItsOwnWaiter(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		first, _ := b.waits(usual)
		s.endRecord()
		state, answer := b.try(b.ticket(usual))
		equal(t, "status", state.Status, Taken)
		equal(t, "grant", *answer.Grant, OtherGrant{Ticket: parsed(first), Grant: Grant{answer.Token, Claim, answer.Now / 1000 * 1000}})
		b.hearsNothing()
		s.lined()
	})
}

func TestATryOfAFreeLockTakesItWhenOnlyDeadTicketsAreInLine(t *testing.T) {
	for _, death := range []string{"overdue", "unreachable", "retired"} {
		t.Run(death, func(t *testing.T) {
			each(t, func(t *testing.T, s *site) {
				a, b, c := s.party("a"), s.party("b"), s.party("c")
				a.holds(usual)
				dead, _ := b.waits(usual)
				s.kill(b, death, dead)
				s.endRecord()
				ticket := c.ticket(usual)
				state, answer := c.try(ticket)
				equal(t, "status", state.Status, Granted)
				equal(t, "remaining", state.Grant.Remaining, usual)
				equal(t, "waiting", answer.Waiting, 0)
				equal(t, "hold", s.rdb.HExists(ctx, s.keys.Record(), ticket).Val(), true)
				s.lined()
			})
		})
	}
}

func TestATryOfAFreeLockTakesItHoweverManyDeadTicketsOneRequestLeavesInLine(t *testing.T) {
	for _, death := range []string{"overdue", "unreachable"} {
		t.Run(death, func(t *testing.T) {
			twice(t, func(t *testing.T, s *site) {
				a, b := s.party("a"), s.party("b")
				a.holds(usual)
				s.kill(b, death, b.queueMany(3*mostDropped)...)
				s.endRecord()
				state, answer := a.try(a.ticket(usual))
				equal(t, "status", state.Status, Granted)
				equal(t, "waiting", answer.Waiting, 0)
				s.lined()
			})
		})
	}
}

func TestATryBehindDeadTicketsLetsTheLivingOnesAmongThemGoFirst(t *testing.T) {
	twice(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		a.holds(usual)
		b.queueMany(3 * mostDropped)
		b.die()
		next, _ := c.waits(usual)
		s.endRecord()
		state, answer := a.try(a.ticket(usual))
		equal(t, "status", state.Status, Taken)
		equal(t, "token", answer.Token, c.granted(next))
	})
}

func TestATryGivesUpAfterSoManyRequests(t *testing.T) {
	s := onRedis(t)
	a, b := s.party("a"), s.party("b")
	a.holds(usual)
	b.queueMany((1+mostClearing)*mostDropped + 1)
	b.die()
	s.endRecord()
	state, answer := a.try(a.ticket(usual))
	equal(t, "status", state.Status, Taken)
	equal(t, "more", answer.More, true)
	s.lined(s.line()[0])
	state, _ = a.try(a.ticket(usual))
	equal(t, "status of the next", state.Status, Granted)
}

// Each question to the replicas may take as long as the caller has for it.
func TestATryThatClearsALineAsksTheReplicasOnceAndGoesOnIfTheyAnswer(t *testing.T) {
	for have, want := range map[string]Status{":1\r\n": Granted, ":0\r\n": Taken} {
		s := onRedis(t)
		proxy := faultproxy.New(t, single(t).Addr())
		waits := proxy.Add(faultproxy.Rule{
			Match:  faultproxy.Command("wait"),
			Action: faultproxy.RewriteReply(func([]byte) []byte { return []byte(have) }),
		})
		rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
		t.Cleanup(func() { _ = rdb.Close() }) // nothing depends on how a connection ends
		b := s.party("b")
		s.deaf("c").holds(usual)
		b.queueMany(3 * mostDropped)
		b.die()
		s.endRecord()
		a := NewServer(rdb, Channels("fairlock"), "a")
		answer, err := a.Enter(ctx, s.keys, Enter{
			Try: true, Spare: usual, Replicas: Replicas{N: 1, Within: time.Millisecond},
			Tickets: []EnterTicket{{Ticket: NewTicket("a", 1, usual, "", "")}},
		})
		must(t, err)
		equal(t, "status", answer.Tickets[0].Status, want)
		equal(t, "questions", waits.Executed(), 1)
		// The caller asks for those of the grant.
		equal(t, "has copies", answer.Confirmed != nil, want == Taken)
	}
}

// kill makes p's tickets in line dead, in one of three ways.
func (s *site) kill(p *party, how string, tickets ...string) {
	s.t.Helper()
	switch how {
	case "unreachable":
		p.die()
	case "overdue":
		s.age(tickets...)
	case "retired":
		for _, ticket := range tickets { // as a late first enter of a retired ticket would do if the script did not refuse it
			at, _ := s.score(ticket)
			place := s.rdb.LRange(ctx, s.keys.Queue(), 0, 0).Val()[0]
			p.leave(LeaveTicket{Ticket: parsed(ticket), Retire: true})
			must(s.t, s.rdb.LPush(ctx, s.keys.Queue(), place).Err())
			must(s.t, s.rdb.PExpire(ctx, s.keys.Queue(), usual).Err())
			must(s.t, s.rdb.Do(ctx, "ZADD", s.keys.Waiters(), at, ticket).Err())
		}
	}
}

// A record lives through the millisecond of its deadline, with a PTTL of 0. If the answer gave a
// waiter no time at all and the holder were dead, the waiter would come back only with its next
// heartbeat, 5 s later.
func TestALockThatIsHeldIsHeldForSomeTime(t *testing.T) {
	twice(t, func(t *testing.T, s *site) {
		a, b := s.deaf("a"), s.deaf("b")
		s.untidy = true // the record ends while check would look at it
		for range 30 {
			a.holds(3 * time.Millisecond)
			for {
				ticket := b.ticket(usual)
				state, answer := b.try(ticket)
				if state.Status == Granted {
					b.leaves(ticket, state.Grant.Token, Held)
					break
				}
				if answer.Remaining <= 0 {
					t.Fatalf("held by %s for another %v", answer.Holder, answer.Remaining)
				}
				if s.mini != nil {
					s.pass(0)
				}
			}
		}
	})
}

// The same for one that waits in line. The millisecond does not show every time.
func TestALockThatIsHeldIsHeldForSomeTimeBeforeALine(t *testing.T) {
	s := onRedis(t)
	a, b := s.party("a"), s.party("b")
	s.untidy = true // the record ends while check would look at it
	for range 30 {
		a.takes(a.ticket(3 * time.Millisecond))
		ticket := b.ticket(usual)
		state, answer := b.enter(ticket)
		for ; state.Status == Waiting; state, answer = b.enter(ticket, state.Place) {
			if answer.Remaining <= 0 {
				t.Fatalf("held by %s for another %v", answer.Holder, answer.Remaining)
			}
		}
		b.leaves(ticket, state.Grant.Token, Held)
	}
}
