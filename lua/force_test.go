package lua

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestForceEndsTheHoldTellsItsClientAndHandsOver(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, admin := s.party("a"), s.party("b"), s.deaf("admin")
		hold, token := a.holds(usual)
		next, _ := b.waits(usual)
		forced, left := admin.forces(token)
		equal(t, "forced", forced, true)
		equal(t, "left", fmt.Sprint(left), fmt.Sprint(Left{}))
		m := a.hears()
		equal(t, "message", m, Message{News: Forces, Ticket: NewTicket("a", 1, usual, "", ""), Record: s.keys.Record(), Token: token})
		if granted := b.granted(next); granted <= token+1 {
			t.Fatalf("token %d after %d", granted, token)
		}
		equal(t, "holder", s.field("owner"), "b:1")
		a.leaves(hold, token, Forced)
	})
}

func TestForceOfALockWithoutALineFreesIt(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, admin := s.party("a"), s.party("b"), s.deaf("admin")
		hold, token := a.holds(usual)
		before := int64(s.now()) / 1000
		admin.forces(token)
		equal(t, "free", s.gone(s.keys.Record(), s.keys.Queue()), true)
		marks, err := s.rdb.ZRange(ctx, s.keys.Waiters(), 0, -1).Result()
		must(t, err)
		equal(t, "what is remembered", fmt.Sprint(marks), fmt.Sprintf("[!%s #%s]", hold, hold))
		equal(t, "token key", s.rdb.Get(ctx, s.keys.Token()).Val(), fmt.Sprint(token+1))
		if end := s.ends(s.keys.Token()); end < before+TokenTTL.Milliseconds() {
			t.Fatalf("the token key ends at %d", end)
		}
		if _, next := b.holds(usual); next <= token+1 {
			t.Fatalf("token %d after the forced %d", next, token)
		}
	})
}

func TestForceTwiceOrLateDoesNothing(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, admin := s.party("a"), s.party("b"), s.deaf("admin")
		_, token := a.holds(usual)
		next, _ := b.waits(usual)
		b.waits(usual)
		admin.forces(token)
		granted := b.granted(next)
		s.unchanged(func() {
			for _, other := range []int64{token, token + 1, granted - 1, granted + 1, 1} {
				forced, left := admin.forces(other)
				equal(t, "forced", forced, other == granted)
				equal(t, "left", fmt.Sprint(left), fmt.Sprint(Left{}))
			}
		})
		b.hearsNothing()
	})
}

func TestForceOfAFreeLockDoesNothing(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, admin := s.party("a"), s.deaf("admin")
		nothing := func(tokens ...int64) {
			s.unchanged(func() {
				for _, token := range tokens {
					forced, _ := admin.forces(token)
					equal(t, fmt.Sprint("forced by ", token), forced, false)
				}
			})
		}
		nothing(0, 1) // nobody has used it
		ticket, token := a.holds(usual)
		a.leaves(ticket, token, Held)
		nothing(0, token)
	})
}

func TestForceEndsAPlaceholder(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, admin := s.party("a"), s.party("b"), s.deaf("admin")
		hold, token := a.holds(usual)
		waiter, place := b.waits(usual)
		s.forgetAll()
		b.send(Enter{Seen: token, Tickets: []EnterTicket{{Ticket: parsed(waiter), Place: place}}})
		s.allCameBack()
		forced, _ := admin.forces(token)
		equal(t, "forced", forced, true)
		b.granted(waiter)
		equal(t, "reasserted", a.reasserts(a.renewal(hold, token)), 0)
	})
}

func TestForceByAClientThatWaitsCarriesItsGrant(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		_, token := a.holds(usual)
		next, _ := b.waits(usual)
		_, left := b.forces(token)
		equal(t, "ticket", left.Grant.Ticket, parsed(next))
		equal(t, "token", fmt.Sprint(left.Grant.Token), s.field("token"))
		equal(t, "remaining", left.Grant.Remaining, Claim)
		b.hearsNothing()
	})
}

func TestALeaveThatIsRepeatedIsToldOfTheForceThatEndedItsHoldAndOfNoOther(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, admin := s.party("a"), s.party("b"), s.deaf("admin")
		first, second := a.owned("saga-7", usual), b.owned("saga-7", usual)
		token := a.takes(first)
		b.takes(second)
		a.leaves(first, token, Held)
		admin.forces(token)
		a.leaves(first, token, Neither)
		for range 2 {
			b.leaves(second, token, Forced)
		}
		a.holds(usual)
		b.leaves(second, token, Forced)
	})
}

// A late request would give its client a lock that the client does not know, or a place.
func TestALateEnterOfATicketWhoseHoldWasForcedChangesNothing(t *testing.T) {
	for how, enters := range late {
		t.Run(how, func(t *testing.T) {
			each(t, func(t *testing.T, s *site) {
				a, b, admin := s.party("a"), s.party("b"), s.deaf("admin")
				hold, token := a.holds(usual)
				admin.forces(token)
				if how != "among others" {
					s.unchanged(func() { equal(t, "of a free lock", enters(a, hold), ForceEnded) })
				}
				b.holds(usual)
				equal(t, "of a lock that another has", enters(a, hold), ForceEnded)
				equal(t, "in line", slices.Contains(s.line(), hold), false)
				equal(t, "holder", s.field("owner"), "b:1")
			})
		})
	}
}

func TestAForceAfterTheSetOfWaitersWasDeletedPassesNobodyOver(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, admin := s.party("a"), s.party("b"), s.deaf("admin")
		_, token := a.holds(usual)
		next, _ := b.waits(usual)
		must(t, s.rdb.Del(ctx, s.keys.Waiters()).Err())
		admin.forces(token)
		b.granted(next)
	})
}

// The forced holder may not hear of the force before its next renewal, some minutes later. Until
// then the server must remember the force.
func TestAForcedHoldOfALongLeaseIsNotResurrectedByItsNextRenewal(t *testing.T) {
	for _, taken := range []bool{false, true} {
		each(t, func(t *testing.T, s *site) {
			a, b := s.party("a"), s.party("b")
			hold, token := a.holds(time.Hour)
			end := s.ends(s.keys.Record())
			b.forces(token)
			if taken { // and given back
				other, next := b.holds(usual)
				b.leaves(other, next, Held)
			}
			if until := s.ends(s.keys.Token()); !taken && until < end {
				t.Errorf("the token is forgotten %v before the forced hold would have ended", time.Duration(end-until)*time.Millisecond)
			}
			if s.mini != nil {
				s.pass(9 * time.Minute)
				equal(t, "reasserted", a.reasserts(a.renewal(hold, token)), 0)
			}
		})
	}
}

func TestAForcedHolderThatDoesNotListenLearnsItByItsRenewal(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, admin := s.deaf("a"), s.party("b"), s.deaf("admin")
		hold, token := a.holds(usual)
		b.waits(usual)
		admin.forces(token)
		for range 2 { // while b holds the lock, and after the end of b's record
			equal(t, "reasserted", a.Reassert(ctx, a.renewal(hold, token)), Renewed{Forced: true})
			equal(t, "renewed", a.renews(a.renewal(hold, token)), 0)
			s.endRecord()
		}
	})
}

// A client with that lease may come back with the token for as long.
func TestAForcedTokenIsRememberedForTwoLeasesOfItsHolder(t *testing.T) {
	for name, c := range map[string]struct{ lease, left time.Duration }{
		"by its lease": {time.Hour, time.Second}, "by what is left": {time.Second, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, s *site) {
				a, admin := s.party("a"), s.deaf("admin")
				_, token := a.holds(usual)
				must(t, s.rdb.HSet(ctx, s.keys.Record(), "lease", c.lease.Milliseconds()).Err())
				must(t, s.rdb.PExpire(ctx, s.keys.Record(), c.left).Err())
				least := int64(s.now())/1000 + 2*time.Hour.Milliseconds() - time.Second.Milliseconds()
				admin.forces(token)
				if end := s.ends(s.keys.Token()); end < least {
					t.Errorf("the token key ends at %d, before %d", end, least)
				}
			})
		})
	}
}

func TestARecordThatLostItsTokenIsForced(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, admin := s.party("a"), s.deaf("admin")
		a.holds(usual)
		must(t, s.rdb.HDel(ctx, s.keys.Record(), "token").Err())
		forced, _ := admin.forces(0)
		equal(t, "forced", forced, true)
		equal(t, "free", s.gone(s.keys.Record()), true)
		s.unchanged(func() {
			again, _ := admin.forces(0)
			equal(t, "forced again", again, false)
		})
	})
}

// Inspection says which token a force has to name.
func TestARecordWhoseTokenIsDamagedIsForcedByTheTokenThatInspectionShows(t *testing.T) {
	for _, token := range []string{"12.5", "1e15", "0x10", "5 ", "+5", "9007199254740991", "9007199254740992"} {
		t.Run(token, func(t *testing.T) {
			each(t, func(t *testing.T, s *site) {
				a, admin := s.party("a"), s.deaf("admin")
				a.holds(usual)
				must(t, s.rdb.HSet(ctx, s.keys.Record(), "token", token).Err())
				s.untidy = true
				state := admin.inspects()
				equal(t, "token", state.HeldToken, 0)
				equal(t, "damaged", state.Damaged != nil, true)
				forced, _ := admin.forces(state.HeldToken)
				equal(t, "forced", forced, true)
				equal(t, "free", s.gone(s.keys.Record()), true)
			})
		})
	}
}

func TestAnOwnerWithTheNameOfALeaseIsForcedLikeAnyOther(t *testing.T) {
	s := onMiniredis(t)
	a, admin := s.party("a"), s.deaf("admin")
	token := a.takes(a.owned("36000000", usual))
	admin.forces(token)
	equal(t, "end of the token key", s.ends(s.keys.Token()), int64(s.now())/1000+TokenTTL.Milliseconds()+2*usual.Milliseconds())
}
