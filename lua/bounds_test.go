package lua

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// What is larger than any script writes counts for nothing. What is just as large counts.
func TestNumbersAreBelievedUpToTheirBounds(t *testing.T) {
	s := onMiniredis(t)
	a, b := s.party("a"), s.party("b")
	ticket, token := a.holds(usual)
	sets := func(field string, value any) { must(t, s.rdb.HSet(ctx, s.keys.Record(), field, value).Err()) }
	for value, lease := range map[string]int64{
		fmt.Sprint(int64(maxLease)): maxLease, fmt.Sprint(int64(maxLease) + 1): 0, "-1": 0, "x": 0, "1": 1,
	} {
		sets("lease", value)
		_, answer := b.try(b.ticket(usual))
		equal(t, "lease of a record with lease "+value, answer.Lease, time.Duration(lease)*time.Millisecond)
	}
	must(t, s.rdb.HDel(ctx, s.keys.Record(), "lease").Err())
	_, answer := b.try(b.ticket(usual))
	equal(t, "lease of a record without one", answer.Lease, 0)
	b.waits(usual) // makes all further tries unusual
	for value, lease := range map[int64]int64{maxLease: maxLease, maxLease + 1: 0} {
		sets("lease", value)
		_, answer := b.try(b.ticket(usual))
		equal(t, "lease beside a line", answer.Lease, time.Duration(lease)*time.Millisecond)
	}

	r := a.renewal(ticket, token)
	for value, lease := range map[int64]int64{maxLease: maxLease, maxLease + 1: 30_000} {
		sets("lease", value)
		a.renews(r)
		equal(t, "lease of the record", s.field("lease"), fmt.Sprint(lease))
	}
	now := int64(s.now()) / 1000
	for value, left := range map[int64]int64{maxTime: maxTime - now, maxTime + 1: 0} {
		sets(ticket, fmt.Sprint(value, ":1"))
		equal(t, "remaining", a.renews(r).Milliseconds(), left)
	}
}

func TestAPlaceAtTheBoundIsNotFollowedByALargerOne(t *testing.T) {
	s := onMiniredis(t)
	a, b := s.party("a"), s.party("b")
	a.holds(usual)
	b.waits(usual)
	ticket := b.ticket(usual)
	for at, next := range map[int64]Place{maxPlace - 1: maxPlace, maxPlace: s.now(), maxPlace + 1: s.now()} {
		must(t, s.rdb.RPush(ctx, s.keys.Queue(), fmt.Sprint(at, ":", ticket)).Err())
		must(t, s.rdb.ZAdd(ctx, s.keys.Waiters(), redis.Z{Score: float64(s.now()/1000 + 15_000), Member: ticket}).Err())
		s.untidy = true
		newcomer, place := b.waits(usual)
		equal(t, fmt.Sprintf("place behind %d", at), place, next)
		b.leaves(ticket, 0, Waited)
		b.leaves(newcomer, 0, Waited)
	}
}

// A lease has at most twelve digits.
func TestATicketWithALongerLeaseThanAnyIsDropped(t *testing.T) {
	for lease, granted := range map[string]bool{"100000000000": true, "1000000000000": false} {
		for _, before := range []string{"nobody", "a dead one"} {
			t.Run(lease+" behind "+before, func(t *testing.T) {
				each(t, func(t *testing.T, s *site) { longLease(t, s, lease, granted, before != "nobody") })
			})
		}
	}
}

func longLease(t *testing.T, s *site, lease string, granted, dead bool) {
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	hold, token := a.holds(usual)
	next, _ := b.waits(usual)
	ticket := "c:1:" + lease + "::"
	must(t, s.rdb.LPush(ctx, s.keys.Queue(), "1:"+ticket).Err())
	must(t, s.rdb.ZAdd(ctx, s.keys.Waiters(), redis.Z{Score: float64(s.now()/1000 + 15_000), Member: ticket}).Err())
	if dead {
		must(t, s.rdb.LPush(ctx, s.keys.Queue(), "0:d:1:1::").Err())
		must(t, s.rdb.ZAdd(ctx, s.keys.Waiters(), redis.Z{Score: 1, Member: "d:1:1::"}).Err())
	}
	a.leaves(hold, token, Held)
	if granted {
		c.granted(ticket)
		return
	}
	c.hearsNothing()
	b.granted(next)
}

func TestAHolderEntersAgainThoughItsOwnerIsDamaged(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		ticket, token := a.holds(usual)
		must(t, s.rdb.HSet(ctx, s.keys.Record(), "owner", "z:1").Err())
		state, _ := a.enter(ticket)
		equal(t, "status", state.Status, Granted)
		equal(t, "token", state.Grant.Token, token)
	})
}

func TestOfATicketThatStandsInLineTwiceTheFirstPlaceStays(t *testing.T) {
	eachBroken(t, func(t *testing.T, b broken) {
		must(t, b.rdb.RPush(ctx, b.keys.Queue(), fmt.Sprint(int64(b.now()), ":", b.tickets[1])).Err())
		_, answer := b.a.try(b.a.ticket(usual))
		equal(t, "waiting", answer.Waiting, 5)
		b.lined(b.tickets...)
	})
}

func TestATicketThatStandsInLineTwiceHidesNoOther(t *testing.T) {
	eachBroken(t, func(t *testing.T, b broken) {
		must(t, b.rdb.RPush(ctx, b.keys.Queue(), fmt.Sprint(int64(b.now()), ":", b.tickets[4])).Err())
		b.b.leave(LeaveTicket{Ticket: parsed(b.tickets[0])}, LeaveTicket{Ticket: parsed(b.tickets[4])})
		b.lined(b.tickets[1], b.tickets[2], b.tickets[3], b.tickets[4])
		must(t, b.rdb.Del(ctx, b.keys.Queue(), b.keys.Waiters()).Err())
	})
}

func TestTheLargestTokenMayBeSeenAndNoneAboveIt(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		enter := func(seen int64) (Entered, error) {
			return a.Enter(ctx, s.keys, Enter{Seen: seen, Spare: usual, Tickets: []EnterTicket{{Ticket: parsed(a.ticket(usual))}}})
		}
		s.unchanged(func() {
			_, err := enter(maxToken + 1)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprint("no token can follow ", int64(maxToken+1))) {
				t.Fatal(err)
			}
		})
		answer, err := enter(maxToken)
		must(t, err)
		equal(t, "token", answer.Token, maxToken)
		equal(t, "status", answer.Tickets[0].Status, Waiting)
	})
}

func TestTheSmallestDeadlineIsADeadline(t *testing.T) {
	s := onMiniredis(t)
	a, b := s.party("a"), s.party("b")
	a.holds(usual)
	overdue, _ := b.waits(usual)
	other, _ := b.waits(usual)
	must(t, s.rdb.ZAdd(ctx, s.keys.Waiters(), redis.Z{Score: 0, Member: overdue}).Err())
	s.pass(time.Millisecond)
	s.unchanged(func() { a.try(a.ticket(usual)) }) // nothing needs mending
	must(t, s.rdb.ZRem(ctx, s.keys.Waiters(), other).Err())
	a.try(a.ticket(usual)) // mends the other
	at, _ := s.score(overdue)
	equal(t, "deadline", at, 0)
	state := b.ask(EnterTicket{Ticket: parsed(b.ticket(usual)), MaxWaiters: 2}).Tickets[0]
	equal(t, "status where it is swept", state.Status, Waiting)
}

func TestNobodyIsToldThatARecordWithoutATokenIsTheirs(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		hold := a.owned("saga-7", usual)
		a.takes(hold)
		refuses := func(p *party, ticket string) bool {
			_, err := p.Enter(ctx, s.keys, Enter{Try: true, Spare: usual, Tickets: []EnterTicket{{Ticket: parsed(ticket)}}})
			if err != nil && !strings.Contains(err.Error(), "WRONGTYPE the record") {
				t.Fatal(err)
			}
			return err != nil
		}
		must(t, s.rdb.HSet(ctx, s.keys.Record(), "token", 1).Err())
		equal(t, "the holder is refused with the smallest token", refuses(a, hold), false)
		must(t, s.rdb.HDel(ctx, s.keys.Record(), "token").Err())
		equal(t, "a stranger is refused", refuses(b, b.ticket(usual)), false)
		equal(t, "a joint owner is refused", refuses(b, b.owned("saga-7", usual)), true)
		equal(t, "the holder is refused", refuses(a, hold), true)
		must(t, s.rdb.HSet(ctx, s.keys.Record(), "owner", "z").Err())
		equal(t, "the holder is refused without its owner", refuses(a, hold), true)
	})
}

func TestAPlaceholderWhoseBeginningIsDamagedBeginsNow(t *testing.T) {
	for _, since := range []any{"x", int64(maxTime)} {
		s := onMiniredis(t)
		a := s.party("a")
		token := int64(s.now())
		a.placeholder(token)
		must(t, s.rdb.HSet(ctx, s.keys.Record(), "since", since).Err())
		a.send(Enter{Try: true, Seen: token, Spare: time.Hour, Tickets: []EnterTicket{{Ticket: parsed(a.ticket(usual))}}})
		equal(t, "end", s.ends(s.keys.Record()), token/1000+time.Hour.Milliseconds())
	}
}
