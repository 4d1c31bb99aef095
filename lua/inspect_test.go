package lua

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestInspectShowsHolderAndLine(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		holder := NewTicket("a", 1, usual, "saga 7", "since Monday: {x}")
		token := a.takes(holder.String())
		waiter := NewTicket("c", 1, time.Minute, "", "me too")
		_, first := b.waits(usual)
		second := c.queues(waiter.String())
		r := a.renewal(holder.String(), token)
		r.Depth = 3
		a.renews(r)
		s.unchanged(func() {
			got := b.inspects()
			end := s.ends(s.keys.Record())
			if got.Remaining <= 0 || got.Remaining > usual || got.Now < first {
				t.Errorf("remaining %v at %d", got.Remaining, got.Now)
			}
			took := int64(s.now()-got.Now) / 1000 // the script may have been kept from the processor
			if off := end - int64(got.Now)/1000 - got.Remaining.Milliseconds(); off < -1 || off > 1+took {
				t.Errorf("remaining %v, which is wrong by %d ms", got.Remaining, off)
			}
			got.Now, got.Remaining = 0, 0
			equal(t, "state", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", State{
				Token: token, Held: true, Owner: "saga 7", HeldToken: token, Since: Micros(token / 1000 * 1000),
				Holds:   []Hold{{Ticket: holder, Deadline: microsFromMillis(end), Depth: 3}},
				Waiting: 2, Page: 2, Waiters: []Waiter{waits(NewTicket("b", 1, usual, "", ""), first), waits(waiter, second)},
			}))
		})
	})
}

func waits(t Ticket, at Place) Waiter { return Waiter{t, at, fmt.Sprintf("%d:%s", at, t)} }

func TestInspectOfAFreeLockIsEmpty(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		got := a.inspects()
		equal(t, "never used", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", State{Now: got.Now}))
		equal(t, "all keys", s.dump(), "")
		ticket, token := a.holds(usual)
		a.leaves(ticket, token, Held)
		got = a.inspects()
		equal(t, "free", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", State{Now: got.Now, Token: token}))
	})
}

func TestInspectOfAPlaceholderShowsNoOwner(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		token := int64(s.now())
		a.placeholder(token)
		got := a.inspects()
		equal(t, "held", got.Held, true)
		equal(t, "owner", got.Owner, "")
		equal(t, "token", got.HeldToken, token)
		equal(t, "holds", len(got.Holds), 0)
	})
}

func TestInspectShowsAPageOfTheLine(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		b.queueMany(7)
		for _, page := range []struct {
			from, count int
			want        string
		}{{0, 3, "[1 2 3]"}, {3, 3, "[4 5 6]"}, {6, 3, "[7]"}, {7, 3, "[]"}, {0, 100, "[1 2 3 4 5 6 7]"}, {2, 1, "[3]"}, {2, 0, "[]"}, {0, 0, "[]"}} {
			state, err := a.Inspect(ctx, s.keys, page.from, page.count)
			must(t, err)
			counters := []uint64{}
			for _, w := range state.Waiters {
				counters = append(counters, w.Ticket.Counter)
			}
			equal(t, fmt.Sprintf("%d from %d", page.count, page.from), fmt.Sprint(counters), page.want)
			equal(t, "waiting", state.Waiting, 7)
		}
	})
}

func TestInspectShowsWhatMakesSenseOfADamagedLock(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		for what, write := range map[string]func(){
			"a waiter that is no ticket": func() { s.rdb.RPush(ctx, s.keys.Queue(), "1:x") },
			"a waiter without a place":   func() { s.rdb.RPush(ctx, s.keys.Queue(), "c:1:30000::") },
			"a holder that is no ticket": func() { s.rdb.HSet(ctx, s.keys.Record(), "a:b", "1:1") },
			"a hold without a deadline":  func() { s.rdb.HSet(ctx, s.keys.Record(), "c:1:30000::", "x") },
			"a token that is no number":  func() { s.rdb.HSet(ctx, s.keys.Record(), "token", "1.7e+15") },
			"a token key with a text":    func() { s.rdb.Set(ctx, s.keys.Token(), "hello", usual) },
			"another format":             func() { s.rdb.LPush(ctx, s.keys.Queue(), "v2|a|1") },
		} {
			s.forgetAll()
			hold, token := a.holds(usual)
			_, place := a.waits(usual)
			s.untidy = true
			write()
			state := a.inspects()
			if state.Damaged == nil || strings.Contains(state.Damaged.Error(), "%!") {
				t.Errorf("%s: %+v", what, state)
			}
			equal(t, what+": holder", state.Holds[0].Ticket.String(), hold)
			equal(t, what+": first in line", state.Waiters[0].Place, place)
			if what != "a token that is no number" {
				equal(t, what+": token", state.HeldToken, token)
			}
			s.untidy = false
		}
	})
}
