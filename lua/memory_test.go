package lua

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// fill makes the server refuse commands that need memory, until the test ends.
func (s *site) fill() {
	s.t.Helper()
	must(s.t, s.rdb.ConfigSet(ctx, "maxmemory", "1").Err())
	s.t.Cleanup(func() { must(s.t, s.rdb.ConfigSet(ctx, "maxmemory", "0").Err()) })
	if err := s.rdb.Set(ctx, "more", "1", 0).Err(); !redis.HasErrorPrefix(err, "OOM") {
		s.t.Fatalf("the server is not full: %v", err)
	}
}

// whileEmpty lets the test itself write on a full server.
func (s *site) whileEmpty(write func()) {
	s.t.Helper()
	must(s.t, s.rdb.ConfigSet(ctx, "maxmemory", "0").Err())
	write()
	must(s.t, s.rdb.ConfigSet(ctx, "maxmemory", "1").Err())
}

func TestAFullServerRefusesNewTicketsAndWritesNothing(t *testing.T) {
	for _, state := range []string{"free", "never used", "held", "held with a line", "with a placeholder to write"} {
		for _, try := range []bool{true, false} {
			t.Run(state, func(t *testing.T) {
				s := onRedis(t)
				a, b := s.party("a"), s.party("b")
				ticket, token := a.holds(usual)
				var seen int64
				switch state {
				case "free":
					a.leaves(ticket, token, Held)
				case "never used":
					s.forgetAll()
				case "held with a line":
					b.waits(usual)
				case "with a placeholder to write":
					s.forgetAll()
					seen = token
				}
				s.fill()
				s.unchanged(func() {
					_, err := b.Enter(ctx, s.keys, Enter{Try: try, Seen: seen, Spare: usual, Tickets: []EnterTicket{{Ticket: parsed(b.ticket(usual))}}})
					switch held := state == "held" || state == "held with a line"; {
					case held && try:
						must(t, err) // it has nothing to write
					case !redis.HasErrorPrefix(err, "OOM"):
						t.Fatal(err)
					}
				})
			})
		}
	}
}

func TestOnAFullServerWaitersGoOnWaiting(t *testing.T) {
	s := onRedis(t)
	a, b := s.party("a"), s.party("b")
	a.holds(usual)
	one, first := b.waits(usual)
	two, second := b.waits(usual)
	three, third := b.waits(usual)
	b.leave(LeaveTicket{Ticket: parsed(two), Place: second})
	s.fill()
	equal(t, "heartbeat", b.queues(one, first), first)
	equal(t, "returning", b.queues(two, second), second)
	s.lined(one, two, three)
	b.ask(EnterTicket{Ticket: parsed(one), Place: first}, EnterTicket{Ticket: parsed(two), Place: second}, EnterTicket{Ticket: parsed(three), Place: third})
	s.forgetLine()
	for ticket, place := range map[string]Place{three: third, one: first, two: second} {
		b.queues(ticket, place)
	}
	s.lined(one, two, three)
	s.whileEmpty(func() { s.age(one, two, three) })
	b.ask(EnterTicket{Ticket: parsed(one), Place: first}, EnterTicket{Ticket: parsed(two), Place: second}, EnterTicket{Ticket: parsed(three), Place: third})
	b.die()
	b.queues(one, first) // and is marked blind
	b.leave(LeaveTicket{Ticket: parsed(one), Place: first, Retire: true})
	s.lined(two, three)
}

func TestOnAFullServerHoldersGoOnHolding(t *testing.T) {
	s := onRedis(t)
	a, b := s.party("a"), s.party("b")
	one, two := a.owned("saga-7", usual), b.owned("saga-7", usual)
	token := a.takes(one)
	s.fill()
	equal(t, "renew", a.renews(a.renewal(one, token)), usual)
	equal(t, "reassert", a.reasserts(a.renewal(one, token)), usual)
	equal(t, "joint owner", b.takes(two), token)
	equal(t, "again", b.takes(two), token)
	a.leaves(one, token, Held)
	b.leaves(two, token, Held)
}

func TestOnAFullServerAForgottenHoldIsWrittenAgain(t *testing.T) {
	for _, owner := range []string{"", "saga-7"} {
		for _, before := range []string{"nothing", "a placeholder", "a ghost"} {
			t.Run(before, func(t *testing.T) {
				s := onRedis(t)
				a := s.party("a")
				ticket := a.owned(owner, usual)
				token := a.takes(ticket)
				s.forgetAll()
				switch before {
				case "a placeholder":
					s.deaf("z").placeholder(token)
				case "a ghost":
					s.ghost(token-1, usual)
				}
				s.fill()
				equal(t, "reassert", a.reasserts(a.renewal(ticket, token)), usual)
				a.leaves(ticket, token, Held)
			})
		}
	}
}

func TestOnAFullServerTheLockIsHandedOver(t *testing.T) {
	s := onRedis(t)
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	hold, token := a.holds(usual)
	first, _ := b.waits(usual)
	second, _ := c.waits(usual)
	third, after := a.waits(usual)
	dead, _ := b.waits(usual)
	fourth, _ := c.waits(usual)
	s.fill()
	a.leaves(hold, token, Held)
	granted := b.granted(first)
	b.forces(granted)
	equal(t, "forced", b.hears().News, Forces)
	c.granted(second)
	s.endRecord()
	state, _ := a.enter(third, after)
	equal(t, "status", state.Status, Granted)
	s.whileEmpty(func() { s.age(dead) })
	a.leave(LeaveTicket{Ticket: parsed(third), Token: state.Grant.Token, Retire: true})
	c.granted(fourth)
}

func TestOnAFullServerAWaiterThatReturnsToAFreeLockTakesIt(t *testing.T) {
	s := onRedis(t)
	a, b := s.party("a"), s.party("b")
	a.holds(usual)
	ticket, place := b.waits(usual)
	s.forgetLine()
	s.endRecord()
	s.fill()
	state, _ := b.enter(ticket, place)
	equal(t, "status", state.Status, Granted)
}

// The holder leaves after the server has lost the record.
func TestOnAFullServerALeaveAfterALossHandsOver(t *testing.T) {
	s := onRedis(t)
	a, b := s.party("a"), s.party("b")
	hold, token := a.holds(usual)
	next, _ := b.waits(usual)
	must(t, s.rdb.Del(ctx, s.keys.Record(), s.keys.Token()).Err())
	s.fill()
	a.leaves(hold, token, Held)
	b.granted(next)
}
