package lua

import (
	"fmt"
	"testing"
	"time"
)

func TestAReassertKeepsTheTokenKeyAlive(t *testing.T) {
	for _, lease := range []time.Duration{usual, time.Hour} {
		each(t, func(t *testing.T, s *site) {
			a := s.party("a")
			ticket, token := a.holds(lease)
			for range 3 {
				s.pass(10 * time.Millisecond)
				r := a.renewal(ticket, token)
				r.Lease = 0 // 0 means the lease of the ticket
				a.reasserts(r)
				end := s.ends(s.keys.Token()) - (TokenTTL + 2*lease).Milliseconds()
				if now := int64(s.now()) / 1000; end > now || end < now-5000 || end < int64(r.Since)/1000 {
					t.Fatalf("end of the token key: that of %d, now is %d", end, now)
				}
				equal(t, "token key", s.rdb.Get(ctx, s.keys.Token()).Val(), fmt.Sprint(token))
			}
		})
	}
}

// The client relies on the key for that long. It relies on what an answer says, however short the
// lease is: after the server's clock was set back, or an Extend.
func TestAReassertKeepsTheTokenKeyForTwiceWhatItSaysIsLeft(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		ticket, token := a.holds(usual)
		r := a.renewal(ticket, token)
		r.Lease, r.Until = 0, s.now()+Micros(time.Hour.Microseconds())
		a.renews(r)
		equal(t, "lease", s.field("lease"), "30000")
		r.Until = 0
		before := int64(s.now()) / 1000
		left := a.reasserts(r)
		if end, least := s.ends(s.keys.Token()), before+(TokenTTL+2*left).Milliseconds(); left < 59*time.Minute || end < least {
			t.Errorf("%v are left, and the token key ends %v too soon", left, time.Duration(least-end)*time.Millisecond)
		}
	})
}

func TestAReassertGivesATokenKeyAnEndWithinReachWhateverIsDamaged(t *testing.T) {
	for what, spoil := range map[string]func(s *site, hold string) error{
		"the token key never ends": func(s *site, _ string) error { return s.rdb.Persist(ctx, s.keys.Token()).Err() },
		"the token key ends far off": func(s *site, _ string) error {
			return s.rdb.PExpireAt(ctx, s.keys.Token(), time.UnixMilli(1<<53)).Err()
		},
		"the hold ends far off": func(s *site, hold string) error {
			return s.rdb.HSet(ctx, s.keys.Record(), hold, fmt.Sprint(int64(maxTime), ":1")).Err()
		},
	} {
		t.Run(what, func(t *testing.T) {
			each(t, func(t *testing.T, s *site) {
				a := s.party("a")
				hold, token := a.holds(usual)
				must(t, spoil(s, hold))
				s.untidy = true
				most := TokenTTL.Milliseconds() + 2*usual.Milliseconds()
				if what == "the hold ends far off" {
					most = TokenTTL.Milliseconds() + 2*maxLease
				}
				a.reasserts(a.renewal(hold, token))
				if left := s.ends(s.keys.Token()) - int64(s.now())/1000; left <= 0 || left > most {
					t.Errorf("the token is remembered for %d ms", left)
				}
			})
		})
	}
}

// Only an edit by hand puts a larger token beside a living hold. Even then the scripts must not
// lower the token.
func TestNothingLowersTheToken(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		ticket := a.owned("saga-7", usual)
		token := a.takes(ticket)
		s.tokens(token + 10_000_000)
		a.renews(a.renewal(ticket, token))
		a.reasserts(a.renewal(ticket, token))
		a.takes(a.owned("saga-7", usual))
		a.send(Enter{Seen: token + 1, Tickets: []EnterTicket{{Ticket: parsed(a.ticket(usual))}}})
		equal(t, "token key", s.rdb.Get(ctx, s.keys.Token()).Val(), fmt.Sprint(token+10_000_000))
		s.forgetLine()
		a.forces(token)
		equal(t, "token key", s.rdb.Get(ctx, s.keys.Token()).Val(), fmt.Sprint(token+10_000_000))
	})
}

func TestAHoldThatTheServerHasForgottenIsWrittenAgain(t *testing.T) {
	// The keys are what the server may have instead of the record.
	loss := map[string]func(s *site, token int64){
		"nothing":                             func(*site, int64) {},
		"an older token":                      func(s *site, token int64) { s.tokens(token - 1) },
		"a placeholder":                       func(s *site, token int64) { s.deaf("z").placeholder(token) },
		"a ghost of before":                   func(s *site, token int64) { s.ghost(token-1, usual) },
		"a ghost of before for longer":        func(s *site, token int64) { s.ghost(token-1, time.Hour) },
		"the smallest ghost":                  func(s *site, token int64) { s.ghost(1, usual); s.tokens(token) },
		"a ghost of before and a newer token": func(s *site, token int64) { s.ghost(token-1, usual); s.tokens(token) },
	}
	for what, lose := range loss {
		t.Run(what, func(t *testing.T) {
			each(t, func(t *testing.T, s *site) {
				a := s.party("a")
				ticket, token := a.holds(usual)
				s.forgetAll()
				lose(s, token)
				r := a.renewal(ticket, token)
				r.Depth = 2
				r.Since = s.now() - 5_000_000
				equal(t, "renewed", a.renews(r), 0)
				equal(t, "remaining", a.reasserts(r), usual)
				end := s.ends(s.keys.Record())
				equal(t, "record", fmt.Sprint(s.rdb.HGetAll(ctx, s.keys.Record()).Val()), fmt.Sprint(map[string]string{
					"owner": "a:1", "token": fmt.Sprint(token), "since": fmt.Sprint(int64(r.Since) / 1000), "lease": "30000",
					ticket: fmt.Sprint(end, ":2"),
				}))
				if now := int64(s.now()) / 1000; end < now+25_000 || end > now+30_000 {
					t.Fatalf("ends at %d, now is %d", end, now)
				}
				equal(t, "token key", s.rdb.Get(ctx, s.keys.Token()).Val(), fmt.Sprint(token))
				equal(t, "renewed", a.renews(r), usual)
				a.leaves(ticket, token, Held)
				equal(t, "free", s.gone(s.keys.Record()), true)
			})
		})
	}
}

// placeholder makes the server notice that it has forgotten a token.
func (p *party) placeholder(seen int64) {
	p.s.t.Helper()
	answer := p.send(Enter{Try: true, Seen: seen, Tickets: []EnterTicket{{Ticket: parsed(p.ticket(usual))}}})
	equal(p.s.t, "forgot", answer.Forgot, true)
}

// ghost writes the record of an earlier owner, as a stale replica has it.
func (s *site) ghost(token int64, lease time.Duration) {
	s.t.Helper()
	end := int64(s.now())/1000 + lease.Milliseconds()
	must(s.t, s.rdb.HSet(ctx, s.keys.Record(), "owner", "g:1", "token", token, "since", 1, "lease", lease.Milliseconds(),
		fmt.Sprintf("g:1:%d::", lease.Milliseconds()), fmt.Sprint(end, ":1")).Err())
	must(s.t, s.rdb.Do(ctx, "PEXPIREAT", s.keys.Record(), end).Err())
	s.tokens(token)
}

// tokens sets the token key.
func (s *site) tokens(token int64) { must(s.t, s.rdb.Set(ctx, s.keys.Token(), token, usual).Err()) }

func TestAHoldIsNotWrittenAgainOverALargerToken(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		ticket, token := a.holds(usual)
		s.forgetAll()
		s.pass(time.Millisecond)
		b.holds(usual) // a newcomer, before any client that knows the token
		s.unchanged(func() { equal(t, "remaining", a.reasserts(a.renewal(ticket, token)), 0) })
		a.leaves(ticket, token, Neither)
		s.rdb.Del(ctx, s.keys.Token()) // now the server forgets only the token
		s.unchanged(func() { equal(t, "remaining", a.reasserts(a.renewal(ticket, token)), 0) })
	})
}

func TestAHoldWhoseTimeIsOverIsNotWrittenAgain(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		ticket, token := a.holds(usual)
		s.forgetAll()
		r := a.renewal(ticket, token)
		for _, over := range []Micros{1000, 0} { // on the embedded server the last one ends now
			r.Lease, r.Until = 0, s.now()-over
			equal(t, "remaining", a.reasserts(r), 0)
			equal(t, "all keys", s.dump(), "")
		}
	})
}

func TestAFixedLeaseIsWrittenAgainUntilItsOwnEnd(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		ticket, token := a.holds(usual)
		s.forgetAll()
		r := a.renewal(ticket, token)
		r.Lease, r.Until = 0, s.now()+Micros(time.Second.Microseconds())
		a.reasserts(r)
		equal(t, "end", s.ends(s.keys.Record()), int64(r.Until)/1000)
		equal(t, "lease", s.field("lease"), "30000")
	})
}

func TestAReassertKeepsTheLongestLeaseOfTheRecord(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		ticket, token := a.holds(usual)
		r := a.renewal(ticket, token)
		r.Lease = time.Hour
		a.renews(r)
		a.reasserts(a.renewal(ticket, token))
		equal(t, "lease", s.field("lease"), "3600000")
		if left := s.ends(s.keys.Token()) - int64(s.now())/1000; left < 7_100_000 {
			t.Fatalf("the token is remembered for %d ms", left)
		}
	})
}
