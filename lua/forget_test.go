package lua

import (
	"fmt"
	"testing"
	"time"
)

func TestAForgottenTokenIsRememberedAndNobodyTakesTheLock(t *testing.T) {
	for _, try := range []bool{true, false} {
		for what, kept := range map[string]int64{"nothing": 0, "an older token": 5} {
			t.Run(fmt.Sprint(what, ", try ", try), func(t *testing.T) {
				each(t, func(t *testing.T, s *site) {
					b := s.party("b")
					seen := int64(s.now())
					if kept > 0 {
						s.tokens(kept)
					}
					answer := b.send(Enter{Try: try, Seen: seen, Spare: 40 * time.Second, Tickets: []EnterTicket{{Ticket: parsed(b.ticket(usual))}}})
					equal(t, "status", answer.Tickets[0].Status, map[bool]Status{true: Taken, false: Waiting}[try])
					equal(t, "forgot", answer.Forgot, true)
					equal(t, "token", answer.Token, seen)
					equal(t, "holder", answer.Holder, "")
					equal(t, "its lease", answer.Lease, 40*time.Second)
					equal(t, "waiting", answer.Waiting, map[bool]int{true: 0, false: 1}[try])
					ms := int64(answer.Now) / 1000
					equal(t, "placeholder", fmt.Sprint(s.rdb.HGetAll(ctx, s.keys.Record()).Val()), fmt.Sprint(map[string]string{
						"owner": "", "token": fmt.Sprint(seen), "since": fmt.Sprint(ms), "lease": "40000", "kept": fmt.Sprint(ms+40_000, ":0"),
					}))
					equal(t, "end of the placeholder", s.ends(s.keys.Record()), ms+40_000)
					equal(t, "token key", s.rdb.Get(ctx, s.keys.Token()).Val(), fmt.Sprint(seen))
					equal(t, "end of the token key", s.ends(s.keys.Token()), ms+TokenTTL.Milliseconds()+2*40_000)

					again := b.send(Enter{Try: try, Seen: seen, Spare: 40 * time.Second, Tickets: []EnterTicket{{Ticket: parsed(b.ticket(usual))}}})
					equal(t, "status again", again.Tickets[0].Status, map[bool]Status{true: Taken, false: Waiting}[try])
					equal(t, "forgot again", again.Forgot, false)
					equal(t, "end of the placeholder", s.ends(s.keys.Record()), ms+40_000)
				})
			})
		}
	}
}

// The first client that enters after a loss need not know how long the lost lease was: its own
// lease may be shorter, and so may the longest lease that it has seen.
func TestAPlaceholderLastsForTheLongestLeaseOfWhichAnybodyTellsWhoKnows(t *testing.T) {
	const first, longer, longest = 5 * time.Second, 40 * time.Second, time.Hour
	for _, try := range []bool{true, false} {
		t.Run(fmt.Sprint("try ", try), func(t *testing.T) {
			each(t, func(t *testing.T, s *site) {
				b, c := s.party("b"), s.party("c")
				seen := int64(s.now())
				tells := func(token int64, lease time.Duration) Entered {
					t.Helper()
					answer := b.send(Enter{Try: try, Seen: token, Spare: lease, Tickets: []EnterTicket{{Ticket: parsed(b.ticket(usual))}}})
					equal(t, "status", answer.Tickets[0].Status, map[bool]Status{true: Taken, false: Waiting}[try])
					equal(t, "holder", answer.Holder, "")
					return answer
				}
				since := int64(tells(seen, first).Now) / 1000
				keeps := func(token int64, lease time.Duration) {
					t.Helper()
					end := since + lease.Milliseconds()
					equal(t, "placeholder", fmt.Sprint(s.rdb.HGetAll(ctx, s.keys.Record()).Val()), fmt.Sprint(map[string]string{
						"owner": "", "token": fmt.Sprint(token), "since": fmt.Sprint(since), "lease": fmt.Sprint(lease.Milliseconds()), "kept": fmt.Sprint(end, ":0"),
					}))
					equal(t, "end of the placeholder", s.ends(s.keys.Record()), end)
					equal(t, "token key", s.rdb.Get(ctx, s.keys.Token()).Val(), fmt.Sprint(token))
				}
				keeps(seen, first)
				s.pass(20 * time.Millisecond)
				tells(seen-1, longest) // such clients know only of an earlier hold, or of none
				tells(0, longest)
				keeps(seen, first)

				answer := tells(seen, longer)
				equal(t, "lease", answer.Lease, longer)
				equal(t, "remaining", answer.Remaining < longer, true)
				keeps(seen, longer)
				s.pass(20 * time.Millisecond)
				remembered := s.ends(s.keys.Token())
				tells(seen, longer)
				tells(seen, first)
				keeps(seen, longer)
				equal(t, "end of the token key", s.ends(s.keys.Token()), remembered)
				equal(t, "end of the token key", s.ends(s.keys.Token()) >= since+TokenTTL.Milliseconds(), true)

				tells(seen, longest)
				keeps(seen, longest)
				equal(t, "end of the token key", s.ends(s.keys.Token()) >= since+2*longest.Milliseconds(), true)

				seen++ // the earlier hold is over
				since = int64(tells(seen, longer).Now) / 1000
				keeps(seen, longer)

				state, _ := c.try(c.ticket(usual))
				equal(t, "a stranger's try", state.Status, Taken)
			})
		})
	}
}

func TestATokenThatTheServerKnowsIsNotForgotten(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		ticket, token := a.holds(usual)
		a.leaves(ticket, token, Held)
		answer := a.send(Enter{Seen: token, Tickets: []EnterTicket{{Ticket: parsed(a.ticket(usual))}}})
		equal(t, "status", answer.Tickets[0].Status, Granted)
		equal(t, "forgot", answer.Forgot, false)
	})
}

// The token key was lost, but not the record: the holder keeps its hold.
func TestALostTokenKeyAloneIsWrittenAgain(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		ticket, token := a.holds(usual)
		for _, seen := range []int64{token, token - 1} {
			must(t, s.rdb.Del(ctx, s.keys.Token()).Err())
			answer := b.send(Enter{Seen: seen, Tickets: []EnterTicket{{Ticket: parsed(b.ticket(usual))}}})
			equal(t, "forgot", answer.Forgot, true)
			equal(t, "holder", answer.Holder, "a:1")
			equal(t, "largest token", answer.Token >= token, true)
		}
		equal(t, "renewed", a.reasserts(a.renewal(ticket, token)), usual)
		a.leaves(ticket, token, Held)
	})
}

func TestAGhostGivesWayToAPlaceholder(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		b := s.party("b")
		seen := int64(s.now())
		s.ghost(seen-1, time.Hour)
		answer := b.send(Enter{Seen: seen, Tickets: []EnterTicket{{Ticket: parsed(b.ticket(usual))}}})
		equal(t, "status", answer.Tickets[0].Status, Waiting)
		equal(t, "forgot", answer.Forgot, true)
		equal(t, "token", s.field("token"), fmt.Sprint(seen))
		equal(t, "ghost", s.rdb.HLen(ctx, s.keys.Record()).Val(), 5)
		equal(t, "end", s.ends(s.keys.Record()), int64(answer.Now)/1000+usual.Milliseconds())
	})
}

// A request of the ghost's own ticket finds that the hold is gone, too.
func TestAGhostsOwnTicketIsNotGrantedOverAPlaceholder(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		g := s.deaf("g")
		seen := int64(s.now())
		s.ghost(seen-1, usual)
		answer := g.send(Enter{Seen: seen, Tickets: []EnterTicket{{Ticket: parsed("g:1:30000::")}}})
		equal(t, "status", answer.Tickets[0].Status, Waiting)
	})
}

// This is the prototype of the design review.
func TestOwnerAndOrderSurviveTheLossOfEverything(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, x, y, z := s.party("a"), s.party("x"), s.party("y"), s.party("z")
		hold, token := a.holds(usual)
		places := map[string]Place{}
		waits := func(p *party) string { ticket, place := p.waits(usual); places[ticket] = place; return ticket }
		y1, z1, x2, y2 := waits(y), waits(z), waits(x), waits(y)
		s.forgetAll()
		s.pass(time.Millisecond)
		comes := func(p *party, ticket string) {
			t.Helper()
			answer := p.send(Enter{Seen: token, Tickets: []EnterTicket{{Ticket: parsed(ticket), Place: places[ticket]}}})
			equal(t, "status of "+ticket, answer.Tickets[0].Status, Waiting)
		}
		comes(y, y2)
		comes(x, x2)
		equal(t, "holder", a.reasserts(a.renewal(hold, token)), usual)
		comes(z, z1)
		comes(y, y1)
		s.lined(y1, z1, x2, y2)
		equal(t, "token", s.field("token"), fmt.Sprint(token))
		s.allCameBack()
		a.leaves(hold, token, Held)
		y.granted(y1)
	})
}

func TestWhenThePlaceholderIsOverTheFirstIsGrantedWithALargerToken(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		_, token := a.holds(usual)
		first, place := b.waits(usual)
		second, after := c.waits(usual)
		s.forgetAll()
		comes := func(p *party, ticket string, place Place) {
			t.Helper()
			answer := p.send(Enter{Seen: token, Spare: 5 * time.Second, Tickets: []EnterTicket{{Ticket: parsed(ticket), Place: place}}})
			equal(t, "status of "+ticket, answer.Tickets[0].Status, Waiting)
		}
		comes(c, second, after)
		comes(b, first, place)
		if s.mini != nil {
			s.pass(5 * time.Second)
		} else {
			s.endRecord()
		}
		s.allCameBack()
		comes(c, second, after)
		if next := b.granted(first); next <= token {
			t.Fatalf("token %d after %d", next, token)
		}
		s.lined(second)
	})
}

func TestAHolderThatLeavesAfterALossLeavesCleanlyAndHandsOver(t *testing.T) {
	for what, waiterEnters := range map[string]bool{"over nothing": false, "over a placeholder": true} {
		t.Run(what, func(t *testing.T) {
			each(t, func(t *testing.T, s *site) {
				a, b := s.party("a"), s.party("b")
				hold, token := a.holds(usual)
				waiter, place := b.waits(usual)
				s.forgetAll()
				enter := Enter{Seen: token, Tickets: []EnterTicket{{Ticket: parsed(waiter), Place: place}}}
				if waiterEnters {
					equal(t, "status", b.send(enter).Tickets[0].Status, Waiting)
					s.allCameBack()
				}
				a.leaves(hold, token, Held)
				equal(t, "second", a.leave(LeaveTicket{Ticket: parsed(hold), Token: token}).Were[0], Neither)
				var next int64
				if waiterEnters {
					next = b.granted(waiter)
				} else {
					equal(t, "token key", s.rdb.Get(ctx, s.keys.Token()).Val(), fmt.Sprint(token))
					answer := b.send(enter)
					equal(t, "status before all could come back", answer.Tickets[0].Status, Waiting)
					equal(t, "told when to ask again", answer.Remaining > 0, true)
					s.allCameBack()
					enter.Tickets[0].Place = answer.Tickets[0].Place
					answer = b.send(enter)
					equal(t, "status", answer.Tickets[0].Status, Granted)
					equal(t, "forgot", answer.Forgot, false)
					next = answer.Tickets[0].Grant.Token
				}
				if next <= token {
					t.Fatalf("token %d after %d", next, token)
				}
				equal(t, "late reassert", a.reasserts(a.renewal(hold, token)), 0)
			})
		})
	}
}

// The record is lost, but not the line.
func TestAHolderThatLeavesOverNothingHandsOverToTheLine(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		hold, token := a.holds(usual)
		waiter, _ := b.waits(usual)
		must(t, s.rdb.Del(ctx, s.keys.Record(), s.keys.Token()).Err())
		a.leaves(hold, token, Held)
		if next := b.granted(waiter); next <= token {
			t.Fatalf("token %d after %d", next, token)
		}
	})
}

func TestAWaiterOrAStrangerThatLeavesDoesNotEndAPlaceholder(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		b := s.party("b")
		token := int64(s.now())
		b.placeholder(token)
		s.unchanged(func() {
			b.leaves(b.ticket(usual), 0, Neither)
			b.leaves(b.ticket(usual), token-1, Neither)
			b.leave()
		})
	})
}

// The other clients know only of the hold before the one that leaves. That hold had ended when the
// leaving one was granted.
func TestTheLastHolderThatLeavesAfterALossEndsAPlaceholderForOneBeforeIt(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		_, token := a.holds(usual)
		waiter, place := b.waits(usual)
		s.forgetAll()
		c.placeholder(token - 1)
		b.send(Enter{Seen: token - 1, Tickets: []EnterTicket{{Ticket: parsed(waiter), Place: place}}})
		s.allCameBack()
		a.leaves(a.ticket(usual), token, Held)
		next := b.granted(waiter)
		if next <= token {
			t.Fatalf("token %d after %d", next, token)
		}
		b.leaves(waiter, next, Held)
		equal(t, "free", s.gone(s.keys.Record()), true)
	})
}

// A record with a smaller token may belong to a newer hold: the server that granted it may have a
// clock behind that of the server before.
func TestTheLastHolderThatLeavesAfterALossTakesTheLockFromNobody(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		token := int64(s.now())
		s.ghost(token-1, time.Hour)
		s.unchanged(func() { a.leaves(a.ticket(usual), token, Neither) })
	})
}

func TestARecordThatIsKeptForNobodyAnyMoreOrForOthersIsNotEndedByAForgottenHolder(t *testing.T) {
	for what, damage := range map[string]func(s *site, now int64) []any{
		"others of its owner may come back":  func(_ *site, now int64) []any { return []any{"kept", fmt.Sprint(now+30_000, ":0")} },
		"a placeholder whose time is over":   func(_ *site, now int64) []any { return []any{"owner", "", "kept", fmt.Sprint(now, ":0")} },
		"a placeholder whose time was never": func(*site, int64) []any { return []any{"owner", ""} },
	} {
		s := onMiniredis(t)
		a := s.party("a")
		token := int64(s.now())
		s.ghost(token-1, time.Hour)
		must(t, s.rdb.HSet(ctx, s.keys.Record(), damage(s, token/1000)...).Err())
		a.leaves(a.ticket(usual), token, Neither)
		equal(t, what, s.field("token"), fmt.Sprint(token-1))
	}
}

func TestTheSmallestTokenIsNotForgotten(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		a.placeholder(1)
		a.leaves(a.ticket(usual), 1, Held)
		equal(t, "free", s.gone(s.keys.Record()), true)
	})
}

func TestAWaiterThatLeavesDoesNotEndAPlaceholderWhoseTokenIsDamaged(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		a.placeholder(int64(s.now()))
		must(t, s.rdb.HDel(ctx, s.keys.Record(), "token").Err())
		s.unchanged(func() { a.leaves(a.ticket(usual), 0, Neither) })
	})
}

// A late request may have put a forgotten holder in line.
func TestAForgottenHolderThatLeavesWithOthersHeldTheLock(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		hold, token := a.holds(usual)
		s.forgetAll()
		b.placeholder(token)
		a.queues(hold)
		waiter, _ := a.waits(usual)
		left := a.leave(LeaveTicket{Ticket: parsed(hold), Token: token}, LeaveTicket{Ticket: parsed(waiter)})
		equal(t, "left", fmt.Sprint(left.Were), fmt.Sprint([]Was{Held, Waited}))
		s.lined()
	})
}
