package lua

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/redistest"
)

// as makes later parties run the scripts as a user that has all commands and keys, as far as these
// rules do not change that.
func (s *site) as(rules ...any) {
	s.t.Helper()
	must(s.t, s.rdb.Do(ctx, append([]any{"ACL", "SETUSER", "limited", "reset", "on", "nopass", "+@all", "allkeys"}, rules...)...).Err())
	s.scripts = single(s.t).Client(s.t, func(o *redis.Options) { o.Username, o.Password = "limited", anyPassword })
}

func TestAUserThatMayNotAskWhoListensIsNotHeard(t *testing.T) {
	s := onRedis(t)
	a := s.party("a")
	a.holds(usual)
	s.as("-pubsub")
	b := s.party("b")
	_, answer := b.enter(b.ticket(usual))
	equal(t, "heard", answer.Heard, false)
}

func TestAUserThatMayNotPublishStillHandsOver(t *testing.T) {
	s := onRedis(t)
	b := s.party("b")
	s.as("resetchannels")
	a := s.party("a")
	if err := s.scripts.Publish(ctx, b.channel(), "x").Err(); !redis.HasErrorPrefix(err, "NOPERM") {
		t.Fatalf("the user may publish: %v", err)
	}
	hold, token := a.holds(usual)
	next, place := b.waits(usual)
	last, _ := b.waits(usual)
	a.leaves(hold, token, Held)
	state, _ := b.enter(next, place)
	equal(t, "status", state.Status, Granted)
	s.lined(last)

	forced, _ := a.forces(state.Grant.Token)
	equal(t, "forced", forced, true)
	equal(t, "next holder", s.field("owner"), "b:2")
	b.hearsNothing()
}

func TestAUserThatMayNotAskWhoListensTakesEverybodyForBlind(t *testing.T) {
	s := onRedis(t)
	b := s.party("b")
	s.as("allchannels", "-pubsub")
	a, c := s.party("a"), s.party("c")
	hold, token := a.holds(usual)
	dropped, place := b.waits(usual)
	next := c.ticket(usual)
	_, answer := c.enter(next)
	equal(t, "heard", answer.Heard, false)
	a.leaves(hold, token, Held) // b is not marked as blind, and a may not ask
	c.granted(next)
	b.queues(dropped, place)
	s.lined(dropped)
}

func TestARefusedCommandOfAScriptAndRefusedKeysAreNamed(t *testing.T) {
	s := onRedis(t)
	for rule, named := range map[string]string{
		"-hset":     "hset",
		"-evalsha":  "evalsha",
		"resetkeys": "one of " + s.keys.Record() + " " + s.keys.Queue() + " ",
	} {
		s.as("allchannels", rule)
		a := s.party("a")
		_, err := a.Enter(ctx, s.keys, Enter{Tickets: []EnterTicket{{Ticket: parsed(a.ticket(usual))}}})
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), named) || !Answered(err) {
			t.Errorf("with %s it says %v", rule, err)
		}
	}
}

func TestACommandThatTheServerDoesNotKnowIsNamed(t *testing.T) {
	server := redistest.Start(t, "--rename-command", "HSET", "")
	s := &site{t: t, keys: keysOf(t, "x"), rdb: server.Client(t), scripts: server.Client(t)}
	a := s.party("a")
	_, err := a.Enter(ctx, s.keys, Enter{Tickets: []EnterTicket{{Ticket: parsed(a.ticket(usual))}}})
	if err == nil || !strings.Contains(err.Error(), "does not know HSET") || !Answered(err) {
		t.Errorf("it says %v", err)
	}
}
