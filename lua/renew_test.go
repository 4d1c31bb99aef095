package lua

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// both has the two verbs that prolong a hold.
var both = map[string]func(p *party, r Renewal) time.Duration{"renew": (*party).renews, "reassert": (*party).reasserts}

func eachVerb(t *testing.T, test func(t *testing.T, s *site, prolong func(p *party, r Renewal) time.Duration)) {
	for verb, prolong := range both {
		t.Run(verb, func(t *testing.T) {
			each(t, func(t *testing.T, s *site) { test(t, s, prolong) })
		})
	}
}

func TestARenewalHoldsForItsLeaseFromNow(t *testing.T) {
	eachVerb(t, func(t *testing.T, s *site, prolong func(p *party, r Renewal) time.Duration) {
		a := s.party("a")
		ticket, token := a.holds(usual)
		r := a.renewal(ticket, token)
		r.Lease, r.Depth = time.Hour, 3
		before := int64(s.now()) / 1000
		equal(t, "remaining", prolong(a, r), time.Hour)
		end := s.ends(s.keys.Record())
		if end < before+r.Lease.Milliseconds() || end > int64(s.now())/1000+r.Lease.Milliseconds() {
			t.Fatalf("ends at %d, renewed at %d", end, before)
		}
		equal(t, "hold", s.field(ticket), fmt.Sprint(end, ":3"))
		equal(t, "lease", s.field("lease"), "3600000")
		equal(t, "token", s.field("token"), fmt.Sprint(token))
		equal(t, "owner", s.field("owner"), "a:1")
		state, _ := a.try(ticket)
		equal(t, "still granted", state.Grant.Token, token)
	})
}

func TestARenewalMakesAClaimALease(t *testing.T) {
	eachVerb(t, func(t *testing.T, s *site, prolong func(p *party, r Renewal) time.Duration) {
		a, b := s.party("a"), s.party("b")
		hold, token := a.holds(usual)
		ticket, _ := b.waits(usual)
		a.leaves(hold, token, Held)
		granted := b.granted(ticket)
		equal(t, "remaining", prolong(b, b.renewal(ticket, granted)), usual)
		if end := s.ends(s.keys.Record()); end < granted/1000+usual.Milliseconds() {
			t.Fatalf("ends at %d", end)
		}
		if s.mini != nil {
			s.pass(usual - 5*time.Millisecond)
		}
		state, _ := b.try(ticket)
		equal(t, "status", state.Status, Granted)
	})
}

func TestARenewalNeverShortens(t *testing.T) {
	eachVerb(t, func(t *testing.T, s *site, prolong func(p *party, r Renewal) time.Duration) {
		a := s.party("a")
		ticket, token := a.holds(usual)
		end := s.ends(s.keys.Record())
		for _, shorter := range []Renewal{{Lease: time.Second}, {Lease: 0}, {Until: 1}, {Until: s.now()}, {Until: Micros(end-1) * 1000}} {
			r := a.renewal(ticket, token)
			r.Lease, r.Until = shorter.Lease, shorter.Until
			if left := prolong(a, r); left <= usual-5*time.Second || left > usual {
				t.Fatalf("remaining %v", left)
			}
			equal(t, "end of the record", s.ends(s.keys.Record()), end)
			equal(t, "hold", s.field(ticket), fmt.Sprint(end, ":1"))
			equal(t, "lease", s.field("lease"), "30000")
		}
	})
}

func TestARenewalUntilATimeEndsExactlyThen(t *testing.T) {
	eachVerb(t, func(t *testing.T, s *site, prolong func(p *party, r Renewal) time.Duration) {
		a := s.party("a")
		ticket, token := a.holds(usual)
		r := a.renewal(ticket, token)
		r.Lease, r.Until = 0, s.now()+Micros(time.Minute.Microseconds())
		prolong(a, r)
		equal(t, "end of the record", s.ends(s.keys.Record()), int64(r.Until)/1000)
		equal(t, "hold", s.field(ticket), fmt.Sprint(int64(r.Until)/1000, ":1"))
		r.Lease = time.Hour // the later end counts
		equal(t, "remaining", prolong(a, r), time.Hour)
	})
}

func TestAHoldThatIsNotThereIsNotRenewed(t *testing.T) {
	type end func(s *site, a, b *party, ticket string, token int64)
	ends := map[string]end{
		"released":            func(_ *site, a, _ *party, ticket string, token int64) { a.leaves(ticket, token, Held) },
		"expired":             func(s *site, _, _ *party, _ string, _ int64) { s.endRecord() },
		"forced":              func(_ *site, _, b *party, _ string, token int64) { b.forces(token) },
		"released and taken":  func(_ *site, a, b *party, ticket string, token int64) { a.leaves(ticket, token, Held); b.holds(usual) },
		"expired and taken":   func(s *site, _, b *party, _ string, _ int64) { s.endRecord(); b.holds(usual) },
		"forced and taken":    func(_ *site, _, b *party, _ string, token int64) { b.forces(token); b.holds(usual) },
		"released and forced": func(_ *site, a, b *party, ticket string, token int64) { a.leaves(ticket, token, Held); b.forces(token) },
	}
	for end, act := range ends {
		t.Run(end, func(t *testing.T) {
			for _, owner := range []string{"", "saga-7"} {
				eachVerb(t, func(t *testing.T, s *site, prolong func(p *party, r Renewal) time.Duration) {
					a, b := s.party("a"), s.party("b")
					ticket := a.owned(owner, usual)
					token := a.takes(ticket)
					act(s, a, b, ticket, token)
					s.unchanged(func() { equal(t, "remaining", prolong(a, a.renewal(ticket, token)), 0) })
				})
			}
		})
	}
}

func TestAStrangersTicketIsNotRenewed(t *testing.T) {
	eachVerb(t, func(t *testing.T, s *site, prolong func(p *party, r Renewal) time.Duration) {
		a, b := s.party("a"), s.party("b")
		_, token := a.holds(usual)
		waiter, _ := b.waits(usual)
		s.unchanged(func() {
			equal(t, "a waiter", prolong(b, b.renewal(waiter, token)), 0)
			equal(t, "a stranger", prolong(b, b.renewal(b.ticket(usual), token)), 0)
		})
	})
}

func TestManyHoldsAreRenewedInOneRequest(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		var holds []Renewal
		for i := range MaxRenewals {
			s.keys = keysOf(t, fmt.Sprintf("{one slot}%d", i))
			if s.mini == nil {
				s.keys = keysOf(t, fmt.Sprintf("{one}%d", i))
			}
			r := a.renewal(a.ticket(usual), 1)
			r.Lease = time.Hour
			if i%3 != 1 { // every third ticket holds nothing
				answer, err := a.Enter(ctx, s.keys, Enter{Tickets: []EnterTicket{{Ticket: r.Ticket}}})
				must(t, err)
				r.Token = answer.Token
			}
			holds = append(holds, r)
		}
		for i, r := range a.Renew(ctx, holds) {
			equal(t, "renewed", r, Renewed{Remaining: map[bool]time.Duration{true: time.Hour}[i%3 != 1]})
			if i%3 != 1 {
				equal(t, "lease", s.rdb.HGet(ctx, holds[i].Keys.Record(), "lease").Val(), "3600000")
			}
		}
		s.check()
	})
}

func TestAKeyOfAnotherTypeSpoilsNoOtherRenewal(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		var holds []Renewal
		for i := range 4 {
			s.keys = keysOf(t, fmt.Sprintf("{one}%d", i))
			ticket, token := a.holds(usual)
			r := a.renewal(ticket, token)
			r.Lease = time.Hour
			holds = append(holds, r)
		}
		s.endRecord()
		s.spoil(holds[1].Keys.Record(), "list")
		renewed := a.Renew(ctx, holds)
		equal(t, "of the key of another type", WrongType(renewed[1].Err), true)
		for _, i := range []int{0, 2, 3} {
			equal(t, "renewed", renewed[i], Renewed{Remaining: map[bool]time.Duration{true: time.Hour}[i != 3]})
		}
	})
}

func TestARenewalTouchesNothingButTheRecord(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		ticket, token := a.holds(usual)
		b.waits(usual)
		before := s.dump()
		s.pass(time.Millisecond)
		a.renews(a.renewal(ticket, token))
		_, was, _ := strings.Cut(before, "\n") // the first line is the record's
		_, is, _ := strings.Cut(s.dump(), "\n")
		equal(t, "other keys", is, was)
	})
}

// Redis 7.0 goes by the clock of each moment where a key's end is set, and not by the script's.
func TestAHoldThatEndsWhileItIsRenewedLeavesNoRecordThatStays(t *testing.T) {
	s := onRedis(t)
	for range 40 {
		var all []Renewal
		p := s.rdb.Pipeline()
		p.FlushAll(ctx)
		for i := range MaxRenewals {
			keys := keysOf(t, fmt.Sprint("{x}", i))
			r := Renewal{Keys: keys, Ticket: NewTicket("a", 1, usual, "", ""), Depth: 2}
			ends := time.Now().Add(time.Duration(5+i/20) * time.Millisecond)
			p.HSet(ctx, keys.Record(), r.Ticket.String(), fmt.Sprint(ends.UnixMilli(), ":1"), "owner", "a:1", "token", 1, "lease", 30000)
			p.PExpireAt(ctx, keys.Record(), ends)
			all = append(all, r)
		}
		_, err := p.Exec(ctx)
		must(t, err)
		NewServer(s.rdb, "fairlock:wake:", "a").Renew(ctx, all)
		for _, r := range all {
			if s.rdb.PTTL(ctx, r.Keys.Record()).Val() == -1 {
				t.Fatalf("%v stays for ever", s.rdb.HGetAll(ctx, r.Keys.Record()).Val())
			}
		}
	}
}
