package lua

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// plain returns a client for locks without a line.
func (s *site) plain(id string) *party {
	s.keys = build(Plain("fairlock"), "{x}")
	return &party{Server: NewPlainServer(s.scripts, Channels("fairlock"), id), s: s, id: id}
}

// freed subscribes to the releases of the lock.
func (s *site) freed() (heard func() string) {
	s.t.Helper()
	subscribe, publish := s.rdb.Subscribe, s.rdb.Publish
	if _, sharded := s.rdb.(*redis.ClusterClient); sharded {
		subscribe, publish = s.rdb.SSubscribe, s.rdb.SPublish
	}
	channel := Freed(Plain("fairlock"), s.keys)
	sub := subscribe(ctx, channel)
	_, err := sub.Receive(ctx)
	must(s.t, err)
	s.t.Cleanup(func() { _ = sub.Close() }) // nothing depends on how it ends
	inbox := sub.Channel()
	return func() string {
		s.t.Helper()
		must(s.t, publish(ctx, channel, "nobody").Err())
		var who string
		for m := range inbox {
			if m.Payload == "nobody" {
				return who
			}
			who += m.Payload
		}
		s.t.Fatal("the subscription ended")
		return ""
	}
}

func TestAPlainLockIsTakenOrHeldAndNobodyStandsInLine(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.plain("a"), s.plain("b")
		freed := s.freed()
		hold, token := a.holds(usual)
		state, answer := b.try(b.ticket(usual))
		equal(t, "status", state.Status, Taken)
		equal(t, "holder", answer.Holder, "a:1")
		equal(t, "waiting", answer.Waiting, 0)
		equal(t, "no line", s.gone(s.keys.Queue(), s.keys.Waiters()), true)
		equal(t, "freed so far by", freed(), "")
		a.leaves(hold, token, Held)
		equal(t, "freed by", freed(), "a")
		if _, next := b.holds(usual); next <= token {
			t.Fatalf("token %d after %d", next, token)
		}
	})
}

func TestOfAPlainLockOnlyAHoldersLeaveIsTold(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.plain("a"), s.plain("b")
		freed := s.freed()
		hold, token := a.holds(usual)
		b.leaves(b.ticket(usual), 0, Neither)
		b.leaves(b.ticket(usual), token-1, Neither)
		b.leave()
		equal(t, "freed by", freed(), "")
		forced, _ := b.forces(token)
		equal(t, "forced", forced, true)
		equal(t, "freed by", freed(), "b")
		a.leaves(hold, token, Forced)
		equal(t, "freed by", freed(), "")
	})
}

func TestAJointHoldersLeaveOfAPlainLockIsToldBecauseItMayEndSooner(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.plain("a"), s.plain("b")
		freed := s.freed()
		one, other := a.owned("saga-7", usual), b.owned("saga-7", time.Hour)
		token := a.takes(one)
		equal(t, "same token", b.takes(other), token)
		b.leaves(other, token, Held)
		equal(t, "freed by", freed(), "b")
		if left := s.inspects().Remaining; left > usual {
			t.Fatalf("still for %v", left)
		}
		a.leaves(one, token, Held)
		equal(t, "freed by", freed(), "a")
		equal(t, "free", s.gone(s.keys.Record()), true)
	})
}

// inspects returns the lock as an administrator sees it.
func (s *site) inspects() State { return s.plain("admin").inspects() }

func TestAPlainLockThatTheServerForgotWaitsForItsHolder(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.plain("a"), s.plain("b")
		hold, token := a.holds(usual)
		s.forgetAll()
		state := b.send(Enter{Try: true, Seen: token, Spare: usual, Tickets: []EnterTicket{{Ticket: parsed(b.ticket(usual))}}}).Tickets[0]
		equal(t, "status", state.Status, Taken)
		equal(t, "reasserted", a.reasserts(a.renewal(hold, token)), usual)
		a.leaves(hold, token, Held)
		s.allCameBack()
		b.holds(usual)
	})
}

func TestAReleaseOfAPlainLockThatTheServerForgotLetsTheNextIn(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.plain("a"), s.plain("b")
		freed := s.freed()
		hold, token := a.holds(usual)
		s.forgetAll()
		a.leaves(hold, token, Held)
		equal(t, "freed by", freed(), "a")
		s.allCameBack()
		b.holds(usual)
	})
}

func TestALateTryOfAPlainLockThatHasLeftTakesNothing(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.plain("a")
		ticket := a.ticket(usual)
		left, err := a.Leave(ctx, s.keys, []LeaveTicket{{Ticket: parsed(ticket), Retire: true}})
		must(t, err)
		equal(t, "left", left.Were[0], Neither)
		state, _ := a.try(ticket)
		equal(t, "status", state.Status, Gone)
		equal(t, "free", s.gone(s.keys.Record()), true)
		a.holds(usual)
	})
}

func TestAReleaseThatMayNotPublishReleasesEvenSo(t *testing.T) {
	s := onRedis(t)
	s.as("resetchannels")
	a := s.plain("a")
	hold, token := a.holds(usual)
	a.leaves(hold, token, Held)
	equal(t, "free", s.gone(s.keys.Record()), true)
}
