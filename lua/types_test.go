package lua

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// request is one way to call a script; reads has the keys whose types matter to that call.
type request struct {
	name  string
	reads []string
	send  func(typed) error
}

// typed is a lock with a holder and two waiters, and with what a request may need to know of it.
type typed struct {
	*site
	a, b          *party
	hold, waiter  string
	token         int64
	place         Place
	joint, absent string
}

func newTyped(s *site) typed {
	l := typed{site: s, a: s.party("a"), b: s.party("b")}
	l.hold = l.a.owned("saga-7", usual)
	l.token = l.a.takes(l.hold)
	l.waiter, l.place = l.b.waits(usual)
	l.absent, _ = l.b.waits(usual)
	l.b.leaves(l.absent, 0, Waited)
	l.b.waits(usual)
	l.joint = l.b.owned("saga-7", usual)
	return l
}

func (l typed) enter(p *party, e Enter) error {
	e.Spare = usual
	_, err := p.Enter(ctx, l.keys, e)
	return err
}

func (l typed) leave(p *party, tickets ...LeaveTicket) error {
	_, err := p.Leave(ctx, l.keys, tickets)
	return err
}

func requests() []request {
	all := []string{"lock", "queue", "waiters", "token"}
	tickets := func(t ...EnterTicket) []EnterTicket { return t }
	return []request{
		{"a new ticket", all, func(l typed) error {
			return l.enter(l.a, Enter{Tickets: tickets(EnterTicket{Ticket: parsed(l.a.ticket(usual))})})
		}},
		{"a new ticket with a bound", all, func(l typed) error {
			return l.enter(l.a, Enter{Tickets: tickets(EnterTicket{Ticket: parsed(l.a.ticket(usual)), MaxWaiters: 1})})
		}},
		{"a heartbeat", all, func(l typed) error {
			return l.enter(l.b, Enter{Tickets: tickets(EnterTicket{Ticket: parsed(l.waiter), Place: l.place})})
		}},
		{"a return", all, func(l typed) error {
			return l.enter(l.b, Enter{Tickets: tickets(EnterTicket{Ticket: parsed(l.absent), Place: l.place + 1})})
		}},
		{"a holder again", all, func(l typed) error { return l.enter(l.a, Enter{Tickets: tickets(EnterTicket{Ticket: parsed(l.hold)})}) }},
		{"a joint owner", all, func(l typed) error {
			return l.enter(l.b, Enter{Tickets: tickets(EnterTicket{Ticket: parsed(l.joint)})})
		}},
		{"a try", all, func(l typed) error {
			return l.enter(l.a, Enter{Try: true, Tickets: tickets(EnterTicket{Ticket: parsed(l.a.ticket(usual))})})
		}},
		{"a try after a loss", all, func(l typed) error {
			return l.enter(l.a, Enter{Try: true, Seen: l.token + 1, Tickets: tickets(EnterTicket{Ticket: parsed(l.a.ticket(usual))})})
		}},
		{"many after a loss", all, func(l typed) error {
			return l.enter(l.b, Enter{Seen: l.token + 1, Tickets: tickets(EnterTicket{Ticket: parsed(l.waiter), Place: l.place}, EnterTicket{Ticket: parsed(l.b.ticket(usual))})})
		}},
		{"a holder leaves", all, func(l typed) error { return l.leave(l.a, LeaveTicket{Ticket: parsed(l.hold), Token: l.token}) }},
		{"a waiter leaves", all, func(l typed) error { return l.leave(l.b, LeaveTicket{Ticket: parsed(l.waiter), Place: l.place}) }},
		{"a waiter leaves and is retired", all, func(l typed) error { return l.leave(l.b, LeaveTicket{Ticket: parsed(l.waiter), Retire: true}) }},
		{"nobody leaves", all, func(l typed) error { return l.leave(l.b) }},
		{"a renewal", []string{"lock"}, func(l typed) error { return l.a.Renew(ctx, []Renewal{l.a.renewal(l.hold, l.token)})[0].Err }},
		{"a reassert", []string{"lock", "waiters", "token"}, func(l typed) error { return l.a.Reassert(ctx, l.a.renewal(l.hold, l.token)).Err }},
		{"a force", all, func(l typed) error { _, _, err := l.b.Force(ctx, l.keys, l.token); return err }},
		{"an inspection", all, func(l typed) error { _, err := l.b.Inspect(ctx, l.keys, 0, 10); return err }},
	}
}

// wrong returns the types that a kind of key must not have.
func wrong(kind string) []string {
	own := map[string]string{"lock": "hash", "queue": "list", "waiters": "zset", "token": "string"}[kind]
	return slices.DeleteFunc([]string{"string", "list", "hash", "zset"}, func(other string) bool { return other == own })
}

func (s *site) key(kind string) string {
	return map[string]string{"lock": s.keys.Record(), "queue": s.keys.Queue(), "waiters": s.keys.Waiters(), "token": s.keys.Token()}[kind]
}

func (s *site) spoil(key, kind string) {
	s.t.Helper()
	s.untidy = true
	must(s.t, s.rdb.Del(ctx, key).Err())
	must(s.t, map[string]func() error{
		"string": func() error { return s.rdb.Set(ctx, key, "1", 0).Err() },
		"list":   func() error { return s.rdb.RPush(ctx, key, "1").Err() },
		"hash":   func() error { return s.rdb.HSet(ctx, key, "f", "1").Err() },
		"zset":   func() error { return s.rdb.ZAdd(ctx, key, redis.Z{Score: 1, Member: "m"}).Err() },
	}[kind]())
}

func TestAKeyOfAnotherTypeIsAnErrorBeforeAnythingIsWritten(t *testing.T) {
	twice(t, func(t *testing.T, s *site) {
		for _, kind := range []string{"lock", "queue", "waiters", "token"} {
			for _, other := range wrong(kind) {
				for _, state := range []string{"held", "free", "free with a line", "empty"} {
					s.forgetAll()
					l := newTyped(s)
					switch state {
					case "free":
						s.rdb.Del(ctx, s.keys.Record(), s.keys.Queue(), s.keys.Waiters())
					case "free with a line":
						s.rdb.Del(ctx, s.keys.Record())
					case "empty":
						s.forgetAll()
					}
					s.spoil(s.key(kind), other)
					s.unchanged(func() {
						for _, r := range requests() {
							if slices.Contains(r.reads, kind) {
								s.refused(r, l, "WRONGTYPE", kind+" is a "+other+", "+state)
							}
						}
					})
					s.untidy = false
				}
			}
		}
	})
}

func TestATokenThatNoneCanFollowIsAnErrorBeforeAnythingIsWritten(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		for _, token := range []string{"hello", "nan", "inf", "-1", "1e300", "9007199254740991", "9007199254740992", "9223372036854775807"} {
			for _, state := range []string{"held", "free", "free with a line"} {
				s.forgetAll()
				l := newTyped(s)
				switch state {
				case "free":
					s.rdb.Del(ctx, s.keys.Record(), s.keys.Queue(), s.keys.Waiters())
				case "free with a line":
					s.endRecord()
				}
				must(t, s.rdb.Set(ctx, s.keys.Token(), token, usual).Err())
				s.unchanged(func() {
					for _, r := range requests() {
						if slices.Contains(r.reads, "token") && r.name != "an inspection" {
							s.refused(r, l, "WRONGTYPE the token key "+s.keys.Token(), state+" and the token is "+token)
						}
					}
				})
			}
		}
	})
}

// refused fails unless the server refuses the request with an error of this kind.
func (s *site) refused(r request, l typed, kind, when string) {
	s.t.Helper()
	err := r.send(l)
	if err == nil || s.mini == nil && !redis.HasErrorPrefix(err, kind) || !strings.Contains(err.Error(), kind) {
		s.t.Errorf("%s, when %s: %v", r.name, when, err)
	}
}

func TestALoneHolderDoesNotLeaveBesideALineOfAnotherType(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		for _, kind := range []string{"queue", "waiters"} {
			for _, other := range wrong(kind) {
				s.forgetAll()
				a := s.party("a")
				ticket, token := a.holds(usual)
				s.spoil(s.key(kind), other)
				leaves := func(typed) error {
					_, err := a.Leave(ctx, s.keys, []LeaveTicket{{Ticket: parsed(ticket), Token: token}})
					return err
				}
				s.unchanged(func() {
					s.refused(request{"a lone holder leaves", nil, leaves}, typed{}, "WRONGTYPE", kind+" is a "+other)
				})
				s.untidy = false
			}
		}
	})
}

// The shortest way to release reads no key that it does not need.
func TestALoneHolderLeavesWhateverTheTokenKeyIs(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		for _, kind := range []string{"token"} {
			for _, other := range wrong(kind) {
				s.forgetAll()
				a := s.party("a")
				ticket, token := a.holds(usual)
				s.spoil(s.key(kind), other)
				content := s.rdb.Type(ctx, s.key(kind)).Val()
				left, err := a.Leave(ctx, s.keys, []LeaveTicket{{Ticket: parsed(ticket), Token: token}})
				must(t, err)
				equal(t, "left", left.Were[0], Held)
				equal(t, "free", s.gone(s.keys.Record()), true)
				equal(t, "the other key", s.rdb.Type(ctx, s.key(kind)).Val(), content)
				s.untidy = false
			}
		}
	})
}
