package lua

import (
	"fmt"
	"testing"
	"time"
)

// gathering is a lock that lost its line, with three waiters that come back to their places. Nobody
// holds the lock any more.
type gathering struct {
	*site
	a, b    *party
	seen    int64
	tickets []string
	places  []Place
}

// losses are the ways to lose places. Each one ends the ownership after the loss.
var losses = map[string]func(g gathering, hold string){
	"everything is lost, the holder leaves": func(g gathering, hold string) {
		g.forgetAll()
		g.a.leaves(hold, g.seen, Held)
	},
	"everything is lost, the holder comes back and leaves": func(g gathering, hold string) {
		g.forgetAll()
		equal(g.t, "reasserted", g.a.reasserts(g.a.renewal(hold, g.seen)), usual)
		g.a.leaves(hold, g.seen, Held)
	},
	"everything is lost, the holder and the last in line come back, the holder leaves": func(g gathering, hold string) {
		g.forgetAll()
		equal(g.t, "reasserted", g.a.reasserts(g.a.renewal(hold, g.seen)), usual)
		state, _ := g.b.enter(g.tickets[2], g.places[2])
		equal(g.t, "status", state.Status, Waiting)
		g.a.leaves(hold, g.seen, Held)
	},
	"everything is lost, a placeholder is forced": func(g gathering, _ string) {
		g.forgetAll()
		g.a.placeholder(g.seen)
		forced, _ := g.a.forces(g.seen)
		equal(g.t, "forced", forced, true)
	},
	"everything is lost, the holder leaves over a placeholder": func(g gathering, hold string) {
		g.forgetAll()
		g.a.placeholder(g.seen)
		g.a.leaves(hold, g.seen, Held)
	},
	"the line is lost, the holder leaves": func(g gathering, hold string) {
		g.untidy = true
		must(g.t, g.rdb.Del(ctx, g.keys.Queue()).Err())
		g.a.leaves(hold, g.seen, Held)
		g.untidy = false
	},
	"the line is lost, somebody enters, the holder leaves": func(g gathering, hold string) {
		must(g.t, g.rdb.Del(ctx, g.keys.Queue()).Err())
		newcomer, _ := g.a.waits(usual)
		g.a.leave(LeaveTicket{Ticket: parsed(newcomer)})
		g.a.leaves(hold, g.seen, Held)
	},
	"the first place is lost, the holder leaves": func(g gathering, hold string) {
		g.untidy = true
		must(g.t, g.rdb.LPop(ctx, g.keys.Queue()).Err())
		g.a.leaves(hold, g.seen, Held)
		g.untidy = false
	},
	"record and line are lost, somebody tries": func(g gathering, _ string) {
		must(g.t, g.rdb.Del(ctx, g.keys.Queue(), g.keys.Record()).Err())
		state, _ := g.a.try(g.a.ticket(usual))
		equal(g.t, "try", state.Status, Taken)
	},
}

func eachLoss(t *testing.T, servers func(t *testing.T, test func(t *testing.T, s *site)), test func(t *testing.T, g gathering)) {
	t.Helper()
	for loss, lose := range losses {
		t.Run(loss, func(t *testing.T) {
			servers(t, func(t *testing.T, s *site) {
				g := gathering{site: s, a: s.party("a"), b: s.party("b")}
				var hold string
				hold, g.seen = g.a.holds(usual)
				for range 3 {
					ticket, place := g.b.waits(usual)
					g.tickets, g.places = append(g.tickets, ticket), append(g.places, place)
					s.pass(0)
				}
				lose(g, hold)
				test(t, g)
			})
		})
	}
}

func (g gathering) comes(i int) (Status, Entered) {
	g.t.Helper()
	answer := g.b.send(Enter{Seen: g.seen, Tickets: []EnterTicket{{Ticket: parsed(g.tickets[i]), Place: g.places[i]}}})
	return answer.Tickets[0].Status, answer
}

func TestAfterALossAllComeBackToTheirPlacesBeforeAnyoneHasTheLock(t *testing.T) {
	eachLoss(t, each, func(t *testing.T, g gathering) {
		c := g.party("c")
		newcomer, _ := c.waits(usual)
		for _, i := range []int{2, 1, 0} {
			status, answer := g.comes(i)
			equal(t, "status", status, Waiting)
			equal(t, "holder", answer.Holder, "")
			if answer.Remaining <= 0 || answer.Remaining > 6*time.Second {
				t.Fatalf("told to ask again in %v", answer.Remaining)
			}
		}
		state, _ := c.try(c.ticket(usual))
		equal(t, "try", state.Status, Taken)
		g.a.leave()
		g.lined(append(g.tickets, newcomer)...)
		g.allCameBack()
		g.a.leave()
		g.b.granted(g.tickets[0])
		g.lined(g.tickets[1], g.tickets[2], newcomer)
	})
}

func TestTheTimeToComeBackIsSixSeconds(t *testing.T) {
	onlyEmbedded := func(t *testing.T, test func(t *testing.T, s *site)) { test(t, onMiniredis(t)) }
	eachLoss(t, onlyEmbedded, func(t *testing.T, g gathering) {
		status, answer := g.comes(1)
		equal(t, "status", status, Waiting)
		equal(t, "told to ask again", answer.Remaining, 6*time.Second)
		g.pass(answer.Remaining - 3*time.Millisecond) // pass adds two milliseconds
		status, _ = g.comes(0)
		equal(t, "status a moment before", status, Waiting)
		g.pass(0)
		status, _ = g.comes(0)
		equal(t, "status after", status, Granted)
	})
}

func TestWithoutALossNobodyIsGivenTimeToComeBack(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		hold, token := a.holds(usual)
		dead, _ := b.waits(usual)
		next, _ := b.waits(usual)
		s.age(dead)
		a.send(Enter{Seen: token, Tickets: []EnterTicket{{Ticket: parsed(a.ticket(usual))}}})
		must(t, s.rdb.Del(ctx, s.keys.Token()).Err()) // the line is still there
		a.send(Enter{Seen: token, Tickets: []EnterTicket{{Ticket: parsed(a.ticket(usual))}}})
		a.leave(LeaveTicket{Ticket: parsed(hold), Token: token})
		b.granted(next)
		if _, marked := s.score("?"); marked {
			t.Fatal("all are given time to come back")
		}
	})
}

// Nobody can come back to the place of a dead ticket.
func TestTheLostPlaceOfTheDeadIsNoLoss(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		hold, token := a.holds(usual)
		dead, _ := b.waits(usual)
		next, _ := b.waits(usual)
		s.age(dead)
		s.untidy = true
		must(t, s.rdb.LPop(ctx, s.keys.Queue()).Err())
		a.leaves(hold, token, Held)
		b.granted(next)
	})
}

func TestALineOfTheDeadThatIsOverIsNoLoss(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		dead, _ := b.waits(usual)
		s.age(dead)
		must(t, s.rdb.Del(ctx, s.keys.Queue(), s.keys.Record()).Err()) // as their expiry would
		state, _ := a.try(a.ticket(usual))
		equal(t, "status", state.Status, Granted)
	})
}

func TestAJointOwnerComesBackWhileAllAreGivenTime(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		ticket := a.owned("saga-7", usual)
		token := a.takes(ticket)
		s.forgetAll()
		equal(t, "reasserted", a.reasserts(a.renewal(ticket, token)), usual)
		equal(t, "joined", b.takes(b.owned("saga-7", usual)), token)
		equal(t, "owner", s.field("owner"), "saga-7")
		equal(t, "token", s.field("token"), fmt.Sprint(token))
	})
}
