package lua

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"
)

func TestAFreeLockIsGrantedForTheFullLease(t *testing.T) {
	for _, lease := range []time.Duration{10 * time.Second, usual, 20 * time.Minute} {
		t.Run(lease.String(), func(t *testing.T) {
			each(t, func(t *testing.T, s *site) {
				a := s.party("a")
				ticket := a.ticket(lease)
				state, answer := a.enter(ticket)
				ms := int64(answer.Now) / 1000
				equal(t, "state", state, TicketState{Status: Granted, Grant: Grant{int64(answer.Now), lease, microsFromMillis(ms)}})
				equal(t, "holder", answer.Holder, "a:1")
				equal(t, "its lease", answer.Lease, lease)
				equal(t, "its remaining time", answer.Remaining, lease)
				equal(t, "largest token", answer.Token, state.Grant.Token)
				equal(t, "waiting", answer.Waiting, 0)

				record := fmt.Sprint(s.rdb.HGetAll(ctx, s.keys.Record()).Val())
				end := ms + lease.Milliseconds()
				equal(t, "record", record, fmt.Sprint(map[string]string{
					"owner": "a:1", "token": fmt.Sprint(state.Grant.Token),
					"since": fmt.Sprint(ms), "lease": fmt.Sprint(lease.Milliseconds()), ticket: fmt.Sprint(end, ":1"),
				}))
				equal(t, "end of the record", s.ends(s.keys.Record()), end)
				equal(t, "token key", s.rdb.Get(ctx, s.keys.Token()).Val(), strconv.FormatInt(state.Grant.Token, 10))
				equal(t, "end of the token key", s.ends(s.keys.Token()), ms+(TokenTTL+2*lease).Milliseconds())
				equal(t, "no line", s.gone(s.keys.Queue(), s.keys.Waiters()), true)
			})
		})
	}
}

func TestWhatIsGrantedBesideDeadTicketsIsTheSameAsAtOnce(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, dead := s.party("a"), s.party("dead")
		hold, token := a.holds(usual)
		dead.waits(usual)
		dead.die()
		s.endRecord()
		state, answer := a.try(a.ticket(usual))
		equal(t, "state", state.Status, Granted)
		equal(t, "remaining", state.Grant.Remaining, usual)
		equal(t, "since", state.Grant.Since, answer.Now/1000*1000)
		equal(t, "holder", answer.Holder, "a:2")
		equal(t, "its remaining time", answer.Remaining > usual-time.Second && answer.Remaining <= usual, true)
		equal(t, "token of the answer", answer.Token, state.Grant.Token)
		if state.Grant.Token <= token {
			t.Fatalf("token %d after %d", state.Grant.Token, token)
		}
		a.leaves(hold, token, Neither)
	})
}

func TestAHeldLockPutsTicketsInLineInTheOrderTheyCome(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		_, token := a.holds(usual)
		one, two, three := b.ticket(usual), b.ticket(usual), c.ticket(usual)
		first := b.ask(EnterTicket{Ticket: parsed(one)}, EnterTicket{Ticket: parsed(two)})
		second := c.ask(EnterTicket{Ticket: parsed(three)})
		states := slices.Concat(first.Tickets, second.Tickets)
		for i, state := range states {
			equal(t, "status", state.Status, Waiting)
			equal(t, "position", state.Position, i+1)
			if i > 0 && state.Place <= states[i-1].Place {
				t.Fatalf("place %d after %d", state.Place, states[i-1].Place)
			}
		}
		s.lined(one, two, three)
		equal(t, "first place", states[0].Place, first.Now)
		equal(t, "holder", second.Holder, "a:1")
		equal(t, "its token", second.Token, token)
		equal(t, "waiting", second.Waiting, 3)
		equal(t, "forgot", second.Forgot, false)
		equal(t, "heard", second.Heard, true)
		equal(t, "more", second.More, false)
		if second.Remaining <= 0 || second.Remaining > usual || second.Lease != usual {
			t.Fatalf("remaining %v of %v", second.Remaining, second.Lease)
		}
	})
}

func TestAWaiterLivesFifteenSecondsAndItsLineThirty(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		ticket := b.ticket(usual)
		place := Place(0)
		for range 3 { // new, and its heartbeats
			state, answer := b.enter(ticket, place)
			place = state.Place
			ms := int64(answer.Now) / 1000
			deadline, _ := s.score(ticket)
			equal(t, "deadline", deadline, ms+15_000)
			equal(t, "end of the line", s.ends(s.keys.Queue()), ms+30_000)
			equal(t, "end of the deadlines", s.ends(s.keys.Waiters()), ms+60_000)
			s.pass(20 * time.Millisecond)
		}
	})
}

func TestTheSameRequestTwiceIsTheSameAsOnce(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		hold, token := a.holds(usual)
		end := s.ends(s.keys.Record())
		s.pass(30 * time.Millisecond)
		again, answer := a.enter(hold)
		equal(t, "status", again.Status, Granted)
		equal(t, "token", again.Grant.Token, token)
		equal(t, "remaining", again.Grant.Remaining.Milliseconds(), end-int64(answer.Now)/1000)
		equal(t, "end of the record", s.ends(s.keys.Record()), end)

		ticket, place := b.waits(usual)
		other, _ := b.waits(usual)
		repeated, answer := b.enter(ticket)
		equal(t, "state", repeated, TicketState{Status: Waiting, Place: place})
		equal(t, "waiting", answer.Waiting, 2)
		s.lined(ticket, other)
	})
}

func TestAGrantedTicketThatEntersAgainLearnsWhatIsLeftOfItsClaim(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		hold, token := a.holds(usual)
		ticket, place := b.waits(usual)
		a.leaves(hold, token, Held)
		granted := b.granted(ticket)
		s.pass(30 * time.Millisecond)
		state, answer := b.enter(ticket, place)
		equal(t, "status", state.Status, Granted)
		equal(t, "token", state.Grant.Token, granted)
		equal(t, "remaining", state.Grant.Remaining.Milliseconds(), s.ends(s.keys.Record())-int64(answer.Now)/1000)
		equal(t, "less than the claim", state.Grant.Remaining < Claim, true)
		equal(t, "since", strconv.FormatInt(int64(state.Grant.Since)/1000, 10), s.field("since"))
	})
}

func TestAFreeLockWithALineGoesToItsFirstAndTheNewcomerToItsEnd(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		a.holds(usual)
		first, _ := b.waits(usual)
		second, _ := b.waits(usual)
		s.endRecord()
		newcomer := c.ticket(usual)
		state, answer := c.enter(newcomer)
		equal(t, "status", state.Status, Waiting)
		equal(t, "holder", answer.Holder, "b:1")
		equal(t, "token", answer.Token, b.granted(first))
		equal(t, "waiting", answer.Waiting, 2)
		s.lined(second, newcomer)
	})
}

func TestNewPlacesAndTokensGrowThoughTheServersClockStepsBack(t *testing.T) {
	s := onMiniredis(t)
	a, b := s.party("a"), s.party("b")
	hold, token := a.holds(usual)
	first, place := b.waits(usual)
	s.pass(-time.Hour)
	second, after := b.waits(usual)
	s.lined(first, second)
	equal(t, "second place", after, place+1)
	a.leaves(hold, token, Held)
	next := b.granted(first)
	equal(t, "next token", next, token+1)
	b.leave(LeaveTicket{Ticket: parsed(second)})
	b.leaves(first, next, Held)
	ticket, last := a.holds(usual) // grants on the script's shortest path
	equal(t, "last token", last, token+2)
	a.leaves(ticket, last, Held)
	answer := b.ask(EnterTicket{Ticket: parsed(b.ticket(usual))}, EnterTicket{Ticket: parsed(b.ticket(usual))}) // on the longest
	equal(t, "the very last token", answer.Tickets[0].Grant.Token, token+3)
}
