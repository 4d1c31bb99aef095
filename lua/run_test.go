package lua

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// crowd has parties wait, one after the other, as the letters of who say. A capital waits for an
// owner with a name.
func (s *site) crowd(parties map[string]*party, who string) (tickets []string) {
	s.t.Helper()
	for letter := range strings.SplitSeq(who, "") {
		p := parties[strings.ToLower(letter)]
		ticket := p.ticket(usual)
		if letter != strings.ToLower(letter) {
			ticket = p.owned("saga", usual)
		}
		p.queues(ticket)
		tickets = append(tickets, ticket)
	}
	s.pass(time.Millisecond) // tokens are times: there is room for those of a run
	return tickets
}

// handsOver has a crowd wait behind a holder, who releases. It returns the token of the holder, and
// what the first of the crowd hears.
func (s *site) handsOver(who string) (parties map[string]*party, tickets []string, token int64, m Message) {
	s.t.Helper()
	a := s.party("a")
	parties = map[string]*party{"b": s.party("b+"), "c": s.party("c")}
	hold, token := a.holds(usual)
	tickets = s.crowd(parties, who)
	left := a.leaves(hold, token, Held)
	equal(s.t, "more", left.More, false)
	equal(s.t, "grant", left.Grant, nil)
	return parties, tickets, token, parties[strings.ToLower(who[:1])].hears()
}

func TestAGrantNamesTheTicketsOfTheSameClientThatAreNextInLine(t *testing.T) {
	for who, run := range map[string]string{
		"b": "", "bb": "2", "bbb": "2,3", "bbcb": "2", "bcbb": "", "bB": "", "bbB": "2", "Bb": "", "bbbc": "2,3", "cb": "",
		strings.Repeat("b", 70): "2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33," +
			"34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65",
	} {
		t.Run(who[:min(len(who), 9)], func(t *testing.T) {
			each(t, func(t *testing.T, s *site) {
				_, tickets, token, m := s.handsOver(who)
				equal(t, "granted", m.Ticket.String(), tickets[0])
				equal(t, "run", m.Run, run)
				if n := int64(len(Counters(m.Run))); m.Token <= token+n {
					t.Errorf("token %d after %d, with a run of %d", m.Token, token, n)
				}
			})
		})
	}
}

func TestARunNeedsTokensOfItsOwn(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		for name, last := range map[string]func(now Micros) (token int64, run string){
			"the server's clock was set back": func(now Micros) (int64, string) { return int64(now) + 1e9, "" },
			"no token was given for long":     func(Micros) (int64, string) { return 0, "" },
			"one was given long ago":          func(now Micros) (int64, string) { return int64(now) - 1e6, "2" },
			"the smallest was given":          func(Micros) (int64, string) { return 1, "2" },
		} {
			s.forgetAll()
			a, b := s.party("a"), s.party("b+")
			hold, token := a.holds(usual)
			s.crowd(map[string]*party{"b": b}, "bb")
			last, run := last(s.now())
			if s.tokens(last); last == 0 {
				must(t, s.rdb.Del(ctx, s.keys.Token()).Err())
			}
			left := a.leave(LeaveTicket{Ticket: parsed(hold), Token: token})
			equal(t, name, left.Were[0], Held)
			equal(t, name, b.hears().Run, run)
		}
	})
}

func TestARunIsAsLongAsThereAreTokensForIt(t *testing.T) {
	for room, run := range []string{"", "2", "2,3", "2,3,4", "2,3,4"} {
		s := onMiniredis(t)
		a, b := s.party("a"), s.party("b+")
		hold, token := a.holds(usual)
		s.crowd(map[string]*party{"b": b}, "bbbb")
		s.tokens(int64(s.now()) - 1 - int64(room)) // the time is the token of the grant
		a.leaves(hold, token, Held)
		equal(t, fmt.Sprintf("run with %d numbers", room), b.hears().Run, run)
	}
}

func TestAClientThatDoesNotKnowOfRunsIsToldOfNone(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		hold, token := a.holds(usual)
		s.crowd(map[string]*party{"b": b}, "bb")
		a.leaves(hold, token, Held)
		if text := b.raw(); !strings.HasPrefix(text, "grant ") {
			t.Errorf("it heard %q", text)
		}
	})
}

func TestThoseThatHadATurnLeaveWithTheHold(t *testing.T) {
	for who, next := range map[string]string{"bb": "", "bbbc": "c", "bbbb": "", "bbc": "c"} {
		t.Run(who, func(t *testing.T) {
			each(t, func(t *testing.T, s *site) {
				parties, tickets, _, m := s.handsOver(who)
				n := len(Counters(m.Run))
				leave, want := []LeaveTicket{{Ticket: m.Ticket, Token: m.Token}}, []Was{Held}
				for _, ticket := range tickets[1 : 1+n] {
					leave, want = append(leave, LeaveTicket{Ticket: parsed(ticket)}), append(want, Waited)
				}
				left := parties["b"].leave(leave...)
				equal(t, "left", fmt.Sprint(left.Were), fmt.Sprint(want))
				if next == "" {
					equal(t, "all that is left", s.gone(s.keys.Record(), s.keys.Queue()), true)
					return
				}
				equal(t, "next", parties[next].hears().Ticket.String(), tickets[1+n])
				s.lined(tickets[2+n:]...)
			})
		})
	}
}

// A ticket that was passed over may have come back to a place before those that had a turn.
func TestARunLeavesWhereverItsTicketsStand(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b+"), s.party("c")
		hold, token := a.holds(usual)
		early, place := c.waits(usual)
		c.leave(LeaveTicket{Ticket: parsed(early), Place: place})
		tickets := s.crowd(map[string]*party{"b": b}, "bb")
		a.leaves(hold, token, Held)
		m := b.hears()
		late := c.ticket(usual)
		c.queues(late, place)
		left := b.leave(LeaveTicket{Ticket: m.Ticket, Token: m.Token}, LeaveTicket{Ticket: parsed(tickets[1])})
		equal(t, "left", fmt.Sprint(left.Were), fmt.Sprint([]Was{Held, Waited}))
		c.granted(late)
		s.lined()
	})
}

// A dead ticket before the run's makes the hand-over an unusual one.
func TestTheAnswerToALeaveNamesTheRunOfItsOwnClient(t *testing.T) {
	for _, before := range []string{"nobody", "a dead one"} {
		t.Run(before, func(t *testing.T) {
			each(t, func(t *testing.T, s *site) {
				b, c := s.party("b+"), s.party("c")
				hold, token := b.holds(usual)
				if before != "nobody" {
					dead, _ := c.waits(usual)
					s.age(dead)
				}
				tickets := s.crowd(map[string]*party{"b": b}, "bbb")
				given := b.leaves(hold, token, Held).Grant
				equal(t, "granted", given.Ticket.String(), tickets[0])
				equal(t, "run", given.Run, "3,4")
			})
		})
	}
}

func TestATurnMayBeRetired(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		parties, tickets, _, m := s.handsOver("bb")
		left := parties["b"].leave(LeaveTicket{Ticket: m.Ticket, Token: m.Token}, LeaveTicket{Ticket: parsed(tickets[1]), Retire: true})
		equal(t, "left", fmt.Sprint(left.Were), fmt.Sprint([]Was{Held, Waited}))
		state, _ := parties["b"].enter(tickets[1])
		equal(t, "status", state.Status, Gone)
	})
}

func TestTheRecordSaysWhoseTurnItIs(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a+")
		hold, token := a.holds(usual)
		turn := parsed(a.ticket(usual))
		r := a.renewal(hold, token)
		r.Turn = turn
		for _, renew := range []func(Renewal) time.Duration{a.renews, a.reasserts} {
			renew(r)
			equal(t, "turn", a.inspects().Holds[0].Turn, turn)
		}
		a.leaves(hold, token, Held)
	})
}

func TestAHandOverThatFindsNoRunCostsNoCommandMore(t *testing.T) {
	s := onRedis(t)
	s.scripts = s.rdb
	a, b, c := s.party("a"), s.party("b+"), s.party("c")
	hold, token := a.holds(usual)
	s.crowd(map[string]*party{"b": b, "c": c}, "bcb")
	calls := s.calls(func() { a.leaves(hold, token, Held) })
	equal(t, "the head and who is behind", calls["lrange"], 1)
	equal(t, "further looks", calls["lindex"], 0)
}

func TestAHandOverOfARunIsAFewCommands(t *testing.T) {
	s := onRedis(t)
	s.scripts = s.rdb
	a, b, c := s.party("a"), s.party("b+"), s.party("c")
	hold, token := a.holds(usual)
	tickets := s.crowd(map[string]*party{"b": b, "c": c}, "bbbc")
	usualHandOver := map[string]int{
		"time": 1, "exists": 1, "lrange": 1, "llen": 1, "zcount": 1, "zmscore": 1, "get": 1, "pubsub|numsub": 1,
		"hdel": 1, "lpop": 1, "zrem": 1, "set": 1, "hset": 1, "pexpireat": 1, "publish": 1,
	}
	run := func(more map[string]int) string {
		all := make(map[string]int)
		for _, of := range []map[string]int{usualHandOver, more} {
			for name, n := range of {
				all[name] += n
			}
		}
		return fmt.Sprint(all)
	}
	calls := s.calls(func() { a.leaves(hold, token, Held) })
	equal(t, "hand over to a run", fmt.Sprint(calls), run(map[string]int{"lrange": 1}))
	m, place := b.hears(), s.placeOf(0)
	calls = s.calls(func() {
		b.leave(LeaveTicket{Ticket: m.Ticket, Token: m.Token}, LeaveTicket{Ticket: parsed(tickets[1]), Place: place}, LeaveTicket{Ticket: parsed(tickets[2])})
	})
	delete(calls, "exists")
	delete(usualHandOver, "exists")
	equal(t, "hand over after a run", fmt.Sprint(calls), run(map[string]int{"lpop": 1, "zrem": 1}))
}
