package lua

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

// strayed is a lock held by c, with d and then b in line. The server executed a request of b late,
// when b had been passed over. When b sent that request it did not know its place, so it now stands
// at the end and believes to stand at place.
func strayed(t *testing.T, test func(t *testing.T, s *site, b, c, d *party, own, other string, place Place, leave func())) {
	t.Helper()
	each(t, func(t *testing.T, s *site) {
		a, b, c, d := s.party("a"), s.party("b"), s.party("c"), s.party("d")
		hold, token := a.holds(usual)
		own, place := b.waits(usual)
		holder, _ := c.waits(usual)
		b.die()
		a.leaves(hold, token, Held)
		token = c.granted(holder)
		s.pass(0) // else both would come in the same microsecond
		other, _ := d.waits(usual)
		b.queues(own)
		s.lined(other, own)
		b.listen()
		test(t, s, b, c, d, own, other, place, func() { c.leaves(holder, token, Held) })
	})
}

func TestATicketThatALateRequestPutToTheEndComesBackToItsPlace(t *testing.T) {
	strayed(t, func(t *testing.T, s *site, b, _, _ *party, own, other string, place Place, leave func()) {
		state := b.ask(EnterTicket{Ticket: parsed(own), Place: place, Tell: true}).Tickets[0]
		equal(t, "state", state, TicketState{Status: Waiting, Place: place, Position: 1, Returned: true})
		s.lined(own, other)
		leave()
		b.granted(own)
	})
}

func TestATicketThatALateRequestPutToTheEndComesBackToItsPlaceBesideAnother(t *testing.T) {
	strayed(t, func(t *testing.T, s *site, b, _, _ *party, own, other string, place Place, _ func()) {
		newcomer := b.ticket(usual)
		states := b.ask(EnterTicket{Ticket: parsed(own), Place: place, Tell: true}, EnterTicket{Ticket: parsed(newcomer), Tell: true}).Tickets
		equal(t, "state", states[0], TicketState{Status: Waiting, Place: place, Position: 1, Returned: true})
		equal(t, "position of the newcomer", states[1].Position, 3)
		s.lined(own, other, newcomer)
	})
}

func TestATicketThatALateRequestPutElsewhereLeavesTheLine(t *testing.T) {
	strayed(t, func(t *testing.T, s *site, b, _, d *party, own, other string, place Place, leave func()) {
		equal(t, "state", b.leave(LeaveTicket{Ticket: parsed(own), Place: place}).Were[0], Waited)
		s.lined(other)
		leave()
		d.granted(other)
	})
}

func TestATicketThatALateRequestPutElsewhereIsOutOfTheLineOnceItsOwnerHolds(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		hold, token := a.holds(usual)
		first, own := c.owned("saga", usual), b.owned("saga", usual)
		c.queues(first)
		place := b.queues(own)
		a.leaves(hold, token, Held)
		c.granted(first)
		state, _ := b.enter(own, place-1) // the place that b believes to have
		equal(t, "state", state.Status, Granted)
		s.lined()
	})
}

// lostAndInLine is a server that has lost all data. Then it has executed a heartbeat of b from
// before b's grant, which put b in line.
func lostAndInLine(t *testing.T, test func(t *testing.T, s *site, b, c *party, own, other string, token int64)) {
	t.Helper()
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		hold, before := a.holds(usual)
		own, place := b.waits(usual)
		other, behind := c.waits(usual)
		a.leaves(hold, before, Held)
		token := b.granted(own)
		must(t, s.rdb.FlushAll(ctx).Err())
		b.send(Enter{Seen: before, Tickets: []EnterTicket{{Ticket: parsed(own), Place: place}}})
		c.send(Enter{Seen: token, Tickets: []EnterTicket{{Ticket: parsed(other), Place: behind}}})
		s.lined(own, other)
		test(t, s, b, c, own, other, token)
	})
}

func TestAHolderThatALateHeartbeatPutInLineIsOutOfItOnceItAssertsItsHold(t *testing.T) {
	lostAndInLine(t, func(t *testing.T, s *site, b, c *party, own, other string, token int64) {
		equal(t, "remaining", b.reasserts(b.renewal(own, token)), usual)
		s.lined(other)
	})
}

func TestAHolderThatALateHeartbeatPutInLineIsOutOfItOnceItLeaves(t *testing.T) {
	lostAndInLine(t, func(t *testing.T, s *site, b, c *party, own, other string, token int64) {
		b.leaves(own, token, Held)
		s.lined(other)
	})
}

func TestATicketThatALateRequestPutToTheEndComesBackInALineOfTenThousandAtMost(t *testing.T) {
	for others, back := range map[int]bool{9999: true, 10_000: false} {
		s := onMiniredis(t)
		s.untidy = true // a look at so many takes its time
		a, b, d := s.party("a"), s.party("b"), s.party("d")
		a.holds(usual)
		line, deadlines := make([]any, others), make([]redis.Z, others)
		for i := range others {
			ticket := d.ticket(usual)
			line[i], deadlines[i] = fmt.Sprintf("%d:%s", i+10, ticket), redis.Z{Score: float64(s.now()/1000 + 15_000), Member: ticket}
		}
		must(t, s.rdb.RPush(ctx, s.keys.Queue(), line...).Err())
		must(t, s.rdb.ZAdd(ctx, s.keys.Waiters(), deadlines...).Err())
		own, _ := b.waits(usual)
		state := b.ask(EnterTicket{Ticket: parsed(own), Place: 9, Tell: true}).Tickets[0]
		equal(t, fmt.Sprintf("back, behind %d others", others), state.Returned, back)
	}
}
