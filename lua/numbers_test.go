package lua

import (
	"fmt"
	"strings"
	"testing"
)

// Without a format, Lua in Redis prints a number of this size as 1.7321865431235e+15. Lua in the
// embedded server does not.
func TestEveryNumberIsExactToTheMicrosecond(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		before := s.now()
		hold := a.ticket(usual)
		state, answer := a.enter(hold)
		after := s.now()
		if answer.Now < before || answer.Now > after {
			t.Fatalf("the answer's time is %d, between %d and %d", answer.Now, before, after)
		}
		token := state.Grant.Token
		equal(t, "token", token, int64(answer.Now))
		equal(t, "record", s.field("token"), fmt.Sprint(token))
		equal(t, "token key", s.rdb.Get(ctx, s.keys.Token()).Val(), fmt.Sprint(token))

		waiter := b.ticket(usual)
		state, answer = b.enter(waiter)
		equal(t, "place", state.Place, answer.Now)
		element := fmt.Sprintf("%d:%s", state.Place, waiter)
		equal(t, "element", s.rdb.LIndex(ctx, s.keys.Queue(), 0).Val(), element)
		b.leave(LeaveTicket{Ticket: parsed(waiter), Place: state.Place})
		again, _ := b.enter(waiter, state.Place) // and comes back
		equal(t, "place again", again.Place, state.Place)
		equal(t, "element again", s.rdb.LIndex(ctx, s.keys.Queue(), 0).Val(), element)
		equal(t, "inspected place", b.inspects().Waiters[0].Place, state.Place)

		before = s.now()
		a.leaves(hold, token, Held)
		after = s.now()
		field := strings.Split(b.raw(), " ")
		equal(t, "verb", field[0], "grant")
		at, err := positive(field[1])
		must(t, err)
		if Micros(at) < before || Micros(at) > after {
			t.Fatalf("granted at %d, between %d and %d", at, before, after)
		}
		equal(t, "token of the message", field[3], s.field("token"))
		given, err := positive(field[3])
		must(t, err)
		forced, _ := b.forces(given)
		equal(t, "forced", forced, true)
		equal(t, "message", b.raw(), fmt.Sprintf("forced %d %s %s", given, waiter, s.keys.Record()))
		equal(t, "token key", s.rdb.Get(ctx, s.keys.Token()).Val(), fmt.Sprint(given+1))
	})
}

// Numbers stay exact to the last that Lua can hold.
func TestTokensNearTheEndOfWhatLuaCanCountAreExact(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		last := int64(1<<53 - 10)
		s.tokens(last)
		for i := range int64(4) {
			ticket, token := a.holds(usual)
			equal(t, "token", token, last+1+i)
			equal(t, "renewed", a.reasserts(a.renewal(ticket, token)), usual)
			a.leaves(ticket, token, Held)
		}
	})
}

// Beyond what Lua can count, three ownerships in a row once had the same token.
func TestNoTokenIsGivenTwiceWhereLuaCannotCountAnyFurther(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		s.tokens(1<<53 - 2)
		hold, token := a.holds(usual)
		equal(t, "the last token there is", token, 1<<53-1)
		a.leaves(hold, token, Held)
		for _, try := range []bool{false, true} {
			_, err := b.Enter(ctx, s.keys, Enter{Try: try, Tickets: []EnterTicket{{Ticket: parsed(b.ticket(usual))}}})
			if err == nil || !Answered(err) || !strings.Contains(err.Error(), s.keys.Token()) {
				t.Fatalf("got %v", err)
			}
		}
		s.tokens(1)
		_, err := b.Enter(ctx, s.keys, Enter{Seen: 1<<53 - 1, Spare: usual, Tickets: []EnterTicket{{Ticket: parsed(b.ticket(usual))}}})
		if err == nil || !strings.Contains(err.Error(), s.keys.Token()) || s.rdb.Get(ctx, s.keys.Token()).Val() != "1" {
			t.Fatalf("of one that was seen: %v", err)
		}
	})
}
