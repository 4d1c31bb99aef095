package lua

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// broken is a held lock with five waiters. The tests make it lose parts.
type broken struct {
	*site
	a, b    *party
	hold    string
	token   int64
	tickets []string
	places  []Place
}

func eachBroken(t *testing.T, test func(t *testing.T, b broken)) {
	t.Helper()
	each(t, func(t *testing.T, s *site) {
		b := broken{site: s, a: s.party("a"), b: s.party("b")}
		b.hold, b.token = b.a.holds(usual)
		for range 5 {
			ticket, place := b.b.waits(usual)
			b.tickets, b.places = append(b.tickets, ticket), append(b.places, place)
			s.pass(0)
		}
		s.untidy = true
		test(t, b)
		s.untidy = false
		s.check()
	})
}

func (b broken) heartbeat(i int) { b.t.Helper(); b.b.queues(b.tickets[i], b.places[i]) }

func TestALineThatWasDeletedComesBackInOrder(t *testing.T) {
	eachBroken(t, func(t *testing.T, b broken) {
		must(t, b.rdb.Del(ctx, b.keys.Queue()).Err())
		b.heartbeat(3)
		b.lined(b.tickets[3])
		b.check()
		for _, i := range []int{1, 4, 0, 2} {
			b.heartbeat(i)
		}
		b.lined(b.tickets...)
	})
}

func TestALineThatWasDeletedIsMendedByAnyEnter(t *testing.T) {
	eachBroken(t, func(t *testing.T, b broken) {
		must(t, b.rdb.Del(ctx, b.keys.Queue()).Err())
		newcomer, _ := b.a.waits(usual)
		b.lined(newcomer)
		for i := range b.tickets {
			b.heartbeat(i)
		}
		b.lined(append(b.tickets, newcomer)...)
	})
}

func TestDeadlinesThatWereDeletedAreGivenAnew(t *testing.T) {
	eachBroken(t, func(t *testing.T, b broken) {
		must(t, b.rdb.Del(ctx, b.keys.Waiters()).Err())
		newcomer := b.a.ticket(usual)
		state, answer := b.a.enter(newcomer)
		equal(t, "position", state.Position, 6)
		b.lined(append(b.tickets, newcomer)...)
		for _, ticket := range b.line() {
			deadline, _ := b.score(ticket)
			equal(t, "deadline", deadline, int64(answer.Now)/1000+15_000)
		}
		b.check()
	})
}

// A try mends the deadlines, too. They must expire even if nobody enters after it.
func TestDeadlinesThatATryGivesAnewEnd(t *testing.T) {
	eachBroken(t, func(t *testing.T, b broken) {
		must(t, b.rdb.Del(ctx, b.keys.Waiters()).Err())
		b.a.try(b.a.ticket(usual))
		b.untidy = false
		b.check()
	})
}

func TestWithoutAnyDeadlineTheReachableAreGrantedInOrder(t *testing.T) {
	eachBroken(t, func(t *testing.T, b broken) {
		c := b.party("c")
		last, _ := c.waits(usual)
		must(t, b.rdb.Del(ctx, b.keys.Waiters()).Err())
		b.a.leaves(b.hold, b.token, Held)
		granted := b.b.granted(b.tickets[0])
		b.b.die()
		b.b.leaves(b.tickets[0], granted, Held)
		// Tickets of the client that calls need no subscriber.
		must(t, b.rdb.Del(ctx, b.keys.Record()).Err())
		b.a.leave()
		c.granted(last)
		b.lined()
	})
}

func TestARecordThatWasDeletedIsNotResurrectedAndTheLineGoesOn(t *testing.T) {
	eachBroken(t, func(t *testing.T, b broken) {
		must(t, b.rdb.Del(ctx, b.keys.Record()).Err())
		equal(t, "renewed", b.a.renews(b.a.renewal(b.hold, b.token)), 0)
		equal(t, "reasserted", b.a.reasserts(b.a.renewal(b.hold, b.token)), 0)
		b.a.leaves(b.hold, b.token, Neither) // also lets the free lock advance
		b.b.granted(b.tickets[0])
		b.lined(b.tickets[1:]...)
	})
}

func TestPlacesThatWereRemovedComeBackWithTheirTickets(t *testing.T) {
	eachBroken(t, func(t *testing.T, b broken) {
		for _, i := range []int{0, 2} {
			b.loseElement(i)
		}
		b.heartbeat(1)
		b.lined(b.tickets[1], b.tickets[3], b.tickets[4])
		b.check()
		b.heartbeat(2)
		b.lined(b.tickets[1:]...)
		b.heartbeat(0)
		b.lined(b.tickets...)
	})
}

func TestDeadlinesThatWereRemovedAreGivenAnew(t *testing.T) {
	eachBroken(t, func(t *testing.T, b broken) {
		must(t, b.rdb.ZRem(ctx, b.keys.Waiters(), b.tickets[0], b.tickets[3]).Err())
		b.heartbeat(1)
		b.lined(b.tickets...)
		b.check()
	})
}

// A ticket without a deadline is dead if other tickets have deadlines.
func TestATicketWithoutADeadlineIsPassedOver(t *testing.T) {
	eachBroken(t, func(t *testing.T, b broken) {
		must(t, b.rdb.ZRem(ctx, b.keys.Waiters(), b.tickets[0]).Err())
		b.a.leaves(b.hold, b.token, Held)
		b.b.granted(b.tickets[1])
		b.lined(b.tickets[2:]...)
		b.heartbeat(0)
		b.lined(append([]string{b.tickets[0]}, b.tickets[2:]...)...)
	})
}

// The test removes as many places as deadlines, so counting shows no damage.
func TestDamageThatCountingDoesNotShowIsMendedWhenTheLineMoves(t *testing.T) {
	eachBroken(t, func(t *testing.T, b broken) {
		b.loseElement(0)
		must(t, b.rdb.ZRem(ctx, b.keys.Waiters(), b.tickets[1]).Err())
		for i := range b.tickets {
			b.heartbeat(i)
		}
		b.a.leaves(b.hold, b.token, Held)
		token := b.b.granted(b.tickets[1])
		b.a.leave(LeaveTicket{Ticket: parsed(b.tickets[1]), Token: token})
		b.b.granted(b.tickets[2])
		for _, i := range []int{4, 0, 3} {
			b.heartbeat(i)
		}
		b.lined(b.tickets[0], b.tickets[3], b.tickets[4])
	})
}

// The damage is the same, and the client does not know its place. Yet the server answers it.
func TestATicketWithADeadlineAndNoPlaceIsAnswered(t *testing.T) {
	for what, owner := range map[string]string{"another waits": "", "its owner holds": "saga-7"} {
		t.Run(what, func(t *testing.T) {
			eachBroken(t, func(t *testing.T, b broken) {
				ticket := b.b.owned(owner, usual)
				place := b.b.queues(ticket)
				must(t, b.rdb.LRem(ctx, b.keys.Queue(), 1, fmt.Sprintf("%d:%s", place, ticket)).Err())
				must(t, b.rdb.ZRem(ctx, b.keys.Waiters(), b.tickets[1]).Err())
				if owner != "" {
					must(t, b.rdb.HSet(ctx, b.keys.Record(), "owner", owner).Err())
				}
				state := b.b.ask(EnterTicket{Ticket: parsed(ticket), Tell: true}).Tickets[0]
				equal(t, "at the end", state.Status == Granted || state.Place >= place && state.Position == 6, true)
				for i := range b.tickets {
					b.heartbeat(i)
				}
				b.b.enter(ticket)
			})
		})
	}
}

func TestAWaiterLeavesALineThatIsBroken(t *testing.T) {
	for what, lose := range map[string]func(b broken){
		"no line":      func(b broken) { b.rdb.Del(ctx, b.keys.Queue()) },
		"no deadlines": func(b broken) { b.rdb.Del(ctx, b.keys.Waiters()) },
		"no place":     func(b broken) { b.loseElement(1); b.loseElement(2) },
	} {
		t.Run(what, func(t *testing.T) {
			eachBroken(t, func(t *testing.T, b broken) {
				lose(b)
				left := b.b.leave(LeaveTicket{Ticket: parsed(b.tickets[1]), Place: b.places[1]}, LeaveTicket{Ticket: parsed(b.tickets[2])})
				equal(t, "state", left.Were[0], Waited)
				equal(t, "state of one without a place", left.Were[1], Waited)
				for _, i := range []int{4, 3, 0} {
					b.heartbeat(i)
				}
				b.lined(b.tickets[0], b.tickets[3], b.tickets[4])
			})
		})
	}
}

func TestOneThatLeavesALineThatIsBrokenWaitedIfAnythingShowsIt(t *testing.T) {
	eachBroken(t, func(t *testing.T, b broken) {
		b.loseElement(1)
		b.b.leaves(b.tickets[1], 0, Waited) // it has a deadline
		must(t, b.rdb.Del(ctx, b.keys.Waiters()).Err())
		b.b.leaves(b.tickets[2], 0, Waited) // it has a place
		b.b.leaves(b.tickets[2], 0, Neither)
		b.lined(b.tickets[0], b.tickets[3], b.tickets[4])
		b.heartbeat(0)
	})
}

// Elements and members that no script wrote must not stop the line.
func TestWhatIsNoTicketIsDroppedFromTheLine(t *testing.T) {
	for what, element := range map[string]string{
		"no place": "x:1:30000::", "no ticket": "5", "nothing": "", "no client": "5::1:30000::", "text": "hello", "another ticket": "7:c:x:y::",
	} {
		t.Run(what, func(t *testing.T) {
			eachBroken(t, func(t *testing.T, b broken) {
				for _, list := range []func(){
					func() { b.rdb.LPush(ctx, b.keys.Queue(), element) },
					func() {
						b.rdb.LInsertAfter(ctx, b.keys.Queue(), fmt.Sprintf("%d:%s", b.places[0], b.tickets[0]), element)
					},
				} {
					list()
				}
				b.heartbeat(3)
				_, answer := b.a.try(b.a.ticket(usual))
				equal(t, "waiting", answer.Waiting, 5)
				b.a.leaves(b.hold, b.token, Held)
				token := b.b.granted(b.tickets[0])
				b.a.leave(LeaveTicket{Ticket: parsed(b.tickets[0]), Token: token})
				b.b.granted(b.tickets[1])
				b.heartbeat(2)
				b.lined(b.tickets[2:]...)
			})
		})
	}
}

func TestALineOfManyIsMended(t *testing.T) {
	twice(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		tickets := b.queueMany(1001)
		must(t, s.rdb.Del(ctx, s.keys.Waiters()).Err())
		newcomer, _ := a.waits(usual)
		s.lined(append(tickets, newcomer)...)
		s.pass(time.Millisecond)
		must(t, s.rdb.Del(ctx, s.keys.Queue()).Err())
		again, _ := a.waits(usual)
		s.lined(again)
	})
}

// loseElement removes the i-th ticket from the line by hand.
func (b broken) loseElement(i int) {
	b.t.Helper()
	n, err := b.rdb.LRem(ctx, b.keys.Queue(), 1, fmt.Sprintf("%d:%s", b.places[i], b.tickets[i])).Result()
	must(b.t, err)
	equal(b.t, "removed", n, 1)
}

// As many deadlines are missing as there are marks, so counting shows no damage.
func TestAMarkDoesNotPassForADeadlineThatWasDeleted(t *testing.T) {
	eachBroken(t, func(t *testing.T, b broken) {
		b.b.leave(LeaveTicket{Ticket: parsed(b.tickets[4]), Place: b.places[4], Retire: true})
		must(t, b.rdb.ZRem(ctx, b.keys.Waiters(), b.tickets[3]).Err())
		state, _ := b.b.enter(b.tickets[4])
		equal(t, "a late enter", state.Status, Gone)
	})
	eachBroken(t, func(t *testing.T, b broken) {
		must(t, b.rdb.ZAdd(ctx, b.keys.Waiters(), redis.Z{Score: -float64(int64(b.now())/1000 + 6000), Member: "?"}).Err())
		must(t, b.rdb.ZRem(ctx, b.keys.Waiters(), b.tickets[3]).Err())
		b.a.leaves(b.hold, b.token, Held)
		equal(t, "while all come back to their places it is given to nobody", b.gone(b.keys.Record()), true)
		b.heartbeat(3)
	})
}
