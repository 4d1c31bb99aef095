package lua

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// halfOver is a record of two holds of one owner on the embedded server, whose clock stands still.
// The hold of one ends in so many milliseconds.
func halfOver(t *testing.T, in int64) (s *site, a, b *party, one, two string, token int64) {
	s = onMiniredis(t)
	a, b = s.party("a"), s.party("b")
	one, two = a.owned("saga-7", usual), b.owned("saga-7", usual)
	token = a.takes(one)
	b.takes(two)
	must(t, s.rdb.HSet(ctx, s.keys.Record(), one, fmt.Sprint(int64(s.now())/1000+in, ":1")).Err())
	return s, a, b, one, two, token
}

func TestAHoldIsOverInTheMillisecondOfItsDeadline(t *testing.T) {
	for in, holds := range []bool{false, true} {
		_, a, _, one, _, _ := halfOver(t, int64(in))
		state, _ := a.enter(one)
		equal(t, "remaining when it enters again", state.Grant.Remaining, map[bool]time.Duration{true: time.Millisecond, false: usual}[holds])

		_, a, _, one, _, token := halfOver(t, int64(in))
		a.leaves(one, token, map[bool]Was{true: Held, false: Neither}[holds])

		for verb, prolong := range both {
			_, a, _, one, _, token = halfOver(t, int64(in))
			equal(t, "remaining after "+verb, prolong(a, a.renewal(one, token)), map[bool]time.Duration{true: usual, false: 0}[holds])
		}

		s, _, b, _, two, token := halfOver(t, int64(in))
		b.leaves(two, token, Held)
		equal(t, "free when the other leaves", s.gone(s.keys.Record()), !holds)
	}
}

func TestTheNextInLineIsToldIfTheRecordEndsMoreThanATenthOfASecondSooner(t *testing.T) {
	for later, told := range map[time.Duration]bool{100 * time.Millisecond: false, 101 * time.Millisecond: true} {
		s := onMiniredis(t)
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		token := a.takes(a.owned("saga-7", usual))
		longer := b.owned("saga-7", usual+later)
		b.takes(longer)
		c.waits(usual)
		b.leaves(longer, token, Held)
		if told {
			equal(t, "told", c.hears().News, Recalls)
		}
		c.hearsNothing()
	}
}

// The clock begins within the second half of ten seconds.
func TestTheFirstToJoinInFiveSecondsMovesTheEndsOfTheLine(t *testing.T) {
	s := onMiniredis(t)
	a, b := s.party("a"), s.party("b")
	a.holds(usual)
	b.waits(usual)
	line, marks := s.ends(s.keys.Queue()), s.ends(s.keys.Waiters())
	for _, step := range []struct {
		passes time.Duration
		moved  int64
	}{{time.Second, 0}, {time.Second, 0}, {2 * time.Second, 4006}, {time.Second, 4006}} { // pass adds 2 ms
		s.pass(step.passes)
		b.waits(usual)
		equal(t, "end of the line", s.ends(s.keys.Queue())-line, step.moved)
		equal(t, "end of the marks", s.ends(s.keys.Waiters())-marks, step.moved)
	}
}

func TestAMarkIsValidForAMinuteAtMost(t *testing.T) {
	for left, valid := range map[int64]bool{0: false, 1: true, 60_000: true, 60_001: false} {
		s := onMiniredis(t)
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		ticket, place := b.waits(usual)
		s.endRecord()
		must(t, s.rdb.ZAdd(ctx, s.keys.Waiters(), redis.Z{Score: -float64(int64(s.now())/1000 + left), Member: "?"}).Err())
		state, _ := b.enter(ticket, place)
		equal(t, fmt.Sprintf("status with a mark of %d ms", left), state.Status, map[bool]Status{true: Waiting, false: Granted}[valid])
	}
}

func TestAWaiterWhosePlaceIsLostIsMissedUntilItIsOverdue(t *testing.T) {
	for in, missed := range map[int64]bool{0: false, 1: true} {
		s := onMiniredis(t)
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		ticket, _ := b.waits(usual)
		must(t, s.rdb.ZAdd(ctx, s.keys.Waiters(), redis.Z{Score: float64(int64(s.now())/1000 + in), Member: ticket}).Err())
		must(t, s.rdb.Del(ctx, s.keys.Queue()).Err())
		a.waits(usual)
		_, marked := s.score("?")
		equal(t, "all are given time to come back", marked, missed)
	}
}

func TestAHoldIsAwaitedUntilTheMillisecondInWhichItsPlaceholderEnds(t *testing.T) {
	for in, left := range []time.Duration{0, usual} {
		s := onMiniredis(t)
		a := s.party("a")
		token := int64(s.now())
		a.placeholder(token)
		must(t, s.rdb.HSet(ctx, s.keys.Record(), "kept", fmt.Sprint(token/1000+int64(in), ":0")).Err())
		equal(t, "remaining", a.reasserts(a.renewal(a.ticket(usual), token)), left)
	}
}

func TestABlindClientIsToldOfAGrantUntilItsMillisecond(t *testing.T) {
	for in := range int64(2) {
		s := onMiniredis(t)
		d := s.deaf("d")
		one, two := d.owned("saga-7", usual), d.owned("saga-7", usual)
		d.takes(one)
		d.takes(two)
		d.waits(usual) // and is blind
		must(t, s.rdb.HSet(ctx, s.keys.Record(), one, fmt.Sprint(int64(s.now())/1000+in, ":1")).Err())
		must(t, s.rdb.HDel(ctx, s.keys.Record(), two).Err())
		answer := d.ask(EnterTicket{Ticket: parsed(d.ticket(usual))})
		equal(t, "told", answer.Grant != nil, in > 0)
	}
}

func TestAPlaceholderMayBeForAMillisecond(t *testing.T) {
	s := onMiniredis(t)
	a := s.party("a")
	answer := a.send(Enter{Try: true, Seen: int64(s.now()), Spare: time.Millisecond, Tickets: []EnterTicket{{Ticket: parsed(a.ticket(usual))}}})
	equal(t, "status", answer.Tickets[0].Status, Taken)
	equal(t, "end", s.ends(s.keys.Record()), int64(s.now())/1000+1)
}
