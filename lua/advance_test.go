package lua

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTheLockGoesDownTheLineInOrder(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		parties := []*party{s.party("b"), s.party("c"), s.party("d")}
		hold, token := a.holds(usual)
		type waiter struct {
			p      *party
			ticket string
		}
		var all []waiter
		for i := range 9 {
			p := parties[i%3]
			ticket, _ := p.waits(usual)
			all = append(all, waiter{p, ticket})
		}
		holder := a
		for _, next := range all {
			holder.leaves(hold, token, Held)
			var last int64
			if holder != next.p {
				last, token = token, next.p.granted(next.ticket)
			}
			if token <= last {
				t.Fatalf("token %d after %d", token, last)
			}
			holder, hold = next.p, next.ticket
		}
		s.lined()
		holder.leaves(hold, token, Held)
		equal(t, "what is left", strings.Count(s.dump(), "\n"), 1) // the token key
	})
}

func TestAGrantIsHeldForItsClaimUnlessItIsConfirmed(t *testing.T) {
	for lease, claim := range map[time.Duration]time.Duration{time.Second: time.Second, usual: 3 * time.Second, time.Hour: 3 * time.Second} {
		t.Run(lease.String(), func(t *testing.T) {
			each(t, func(t *testing.T, s *site) {
				a, b := s.party("a"), s.party("b")
				hold, token := a.holds(usual)
				ticket, place := b.waits(lease)
				next, _ := b.waits(lease)
				a.leaves(hold, token, Held)
				m := b.hears()
				ms := int64(m.At) / 1000
				equal(t, "claim", m.Claim, claim)
				equal(t, "token", m.Token, max(token+1, int64(m.At)))
				equal(t, "record", fmt.Sprint(s.rdb.HGetAll(ctx, s.keys.Record()).Val()), fmt.Sprint(map[string]string{
					"owner": "b:1", "token": fmt.Sprint(m.Token), "since": fmt.Sprint(ms), "lease": fmt.Sprint(lease.Milliseconds()),
					ticket: fmt.Sprint(ms+claim.Milliseconds(), ":1"),
				}))
				equal(t, "end of the record", s.ends(s.keys.Record()), ms+claim.Milliseconds())
				equal(t, "token key", s.rdb.Get(ctx, s.keys.Token()).Val(), fmt.Sprint(m.Token))
				equal(t, "end of the token key", s.ends(s.keys.Token()), ms+(TokenTTL+2*lease).Milliseconds())
				s.lined(next)
				if _, waits := s.score(ticket); waits || place == 0 {
					t.Fatal("the holder has a deadline as a waiter")
				}
			})
		})
	}
}

func TestAClaimThatNobodyConfirmsRunsOutAndTheNextHeartbeatIsGranted(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		hold, token := a.holds(usual)
		late, place := b.waits(brief)
		next, at := c.waits(usual)
		a.leaves(hold, token, Held)
		first := b.hears().Token
		s.pass(brief)
		state, _ := c.enter(next, at)
		equal(t, "status", state.Status, Granted)
		if state.Grant.Token <= first {
			t.Fatalf("token %d after %d", state.Grant.Token, first)
		}
		c.hearsNothing()
		b.queues(late, place)
		s.lined(late)
	})
}

func TestDeadTicketsArePassedOverAndDropped(t *testing.T) {
	for _, death := range []string{"overdue", "unreachable", "retired"} {
		t.Run(death, func(t *testing.T) {
			each(t, func(t *testing.T, s *site) {
				a, b, c, d := s.party("a"), s.party("b"), s.party("c"), s.party("d")
				hold, token := a.holds(usual)
				dead, _ := b.waits(usual)
				s.kill(b, death, dead)
				next, _ := c.waits(usual)
				last, _ := d.waits(usual)
				a.leaves(hold, token, Held)
				c.granted(next)
				s.lined(last)
				d.hearsNothing()
			})
		})
	}
}

func TestAWaiterIsOverdueFifteenSecondsAfterItsLastHeartbeat(t *testing.T) {
	for silence, granted := range map[time.Duration]bool{14_999 * time.Millisecond: true, 15 * time.Second: false} {
		s := onMiniredis(t)
		a, b := s.party("a"), s.party("b")
		hold, token := a.holds(usual)
		ticket, place := b.waits(usual)
		s.pass(5 * time.Second)
		b.queues(ticket, place)
		s.pass(silence - 2*time.Millisecond) // and two more
		a.leaves(hold, token, Held)
		equal(t, "granted after "+silence.String(), s.field(ticket) != "", granted)
	}
}

func TestADroppedTicketReturnsToItsPlace(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		hold, token := a.holds(usual)
		blinked, place := b.waits(usual)
		next, _ := c.waits(usual)
		last, _ := c.waits(usual)
		b.die()
		a.leaves(hold, token, Held)
		granted := c.granted(next)
		b.listen()
		b.queues(blinked, place)
		s.lined(blinked, last)
		c.leaves(next, granted, Held)
		b.granted(blinked)
	})
}

func TestALockWithoutALivingWaiterIsFree(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		hold, token := a.holds(usual)
		b.queueMany(3)
		b.die()
		left := a.leaves(hold, token, Held)
		equal(t, "more", left.More, false)
		equal(t, "free", s.gone(s.keys.Record(), s.keys.Queue(), s.keys.Waiters()), true)
		b.holds(usual)
	})
}

func TestTheCallersOwnTicketIsGrantedInTheReplyAndNotByMessage(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		hold, token := a.holds(usual)
		next, _ := a.waits(usual)
		other, place := a.waits(usual)
		left := a.leaves(hold, token, Held)
		equal(t, "ticket", left.Grant.Ticket, parsed(next))
		equal(t, "token", fmt.Sprint(left.Grant.Token), s.field("token"))
		equal(t, "remaining", left.Grant.Remaining, Claim)
		equal(t, "since", fmt.Sprint(int64(left.Grant.Since)/1000), s.field("since"))

		s.endRecord()
		state, answer := a.enter(other, place) // the request has the granted ticket: the grant is in its state
		equal(t, "state", state, TicketState{Status: Granted, Grant: Grant{answer.Token, Claim, answer.Now / 1000 * 1000}})
		equal(t, "holder", answer.Holder, "a:3")
		equal(t, "other grant", answer.Grant, nil)

		before, _ := a.waits(usual)
		s.endRecord()
		behind := a.ticket(usual)
		state, answer = a.enter(behind) // the request lacks the granted ticket: the grant stands beside the states
		equal(t, "status", state.Status, Waiting)
		equal(t, "grant", *answer.Grant, OtherGrant{Ticket: parsed(before), Grant: Grant{answer.Token, Claim, answer.Now / 1000 * 1000}})
		a.hearsNothing()
		s.lined(behind)
	})
}

func TestTheCallersOwnTicketNeedsNoSubscription(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.deaf("a")
		hold, token := a.holds(usual)
		next, _ := a.waits(usual)
		s.age("~a")
		equal(t, "granted", a.leaves(hold, token, Held).Grant.Ticket, parsed(next))
	})
}

func TestFiveHundredTicketsAreDroppedPerRequest(t *testing.T) {
	for _, verb := range []string{"leave", "enter", "force"} {
		t.Run(verb, func(t *testing.T) {
			twice(t, func(t *testing.T, s *site) {
				a, b, c := s.party("a"), s.party("b"), s.party("c")
				hold, token := a.holds(usual)
				b.queueMany(1000)
				b.die()
				next, place := c.waits(usual)
				more := func() bool { // makes one call that finds the lock free
					if verb == "enter" {
						_, answer := c.enter(next, place)
						return answer.More
					}
					return a.leave().More
				}
				switch verb {
				case "leave":
					equal(t, "more", a.leaves(hold, token, Held).More, true)
				case "force":
					_, left := a.forces(token)
					equal(t, "more", left.More, true)
				default:
					s.endRecord()
					equal(t, "more", more(), true)
				}
				equal(t, "left in line", len(s.line()), 501)
				equal(t, "free", s.gone(s.keys.Record()), true)
				equal(t, "still more", more(), true)
				equal(t, "left in line", len(s.line()), 1)
				equal(t, "still more", more(), false)
				equal(t, "granted", s.rdb.HExists(ctx, s.keys.Record(), next).Val(), true)
			})
		})
	}
}
