package torture

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/locks/test/faultproxy"
)

// aimed are the troubles that are no reason to lose a lock: they affect another lock's keys, or
// messages.
var aimed = []string{"NOPERM", "hostile", "tear"}

// tell repeats a command until the server has executed it, however busy it is.
func (s *saboteur) tell(command ...any) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for s.admin.Do(ctx, command...).Err() != nil && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
}

// is puts the server into a state for a while, by its configuration.
func (s *saboteur) is(state, setting, during, after string) bool {
	s.lasting(state, everybody, s.between(500*time.Millisecond, 3*leaseTime), func() { s.tell("CONFIG", "SET", setting, after) })
	s.tell("CONFIG", "SET", setting, during)
	return true
}

func (s *saboteur) lacksReplicas() bool { return s.is("NOREPLICAS", "min-replicas-to-write", "1", "0") }
func (s *saboteur) isFull() bool        { return s.is("OOM", "maxmemory", "1", "0") }

// cannotSave puts a directory where the server wants to write its snapshot.
func (s *saboteur) cannotSave() bool {
	s.ok(os.MkdirAll(filepath.Join(s.dir, "dump.rdb", "taken"), 0o700))
	s.is("MISCONF", "save", "86400 1000000", "")
	s.ask("BGSAVE")
	return true
}

// isBusy runs a script for longer than the server is patient.
func (s *saboteur) isBusy() bool {
	t := s.trouble("BUSY", everybody)
	d := s.between(200*time.Millisecond, 1500*time.Millisecond)
	s.asides.Go(func() {
		s.tell("CONFIG", "SET", "busy-reply-threshold", "50")
		s.ask("EVAL", "local t = redis.call('TIME'); local at = t[1] * 1000 + t[2] / 1000 + ARGV[1]; repeat t = redis.call('TIME') until t[1] * 1000 + t[2] / 1000 > at",
			0, d.Milliseconds())
		t.To = now()
	})
	return true
}

// forbids takes the right to the prey's keys from all users.
func (s *saboteur) forbids() bool {
	s.lasting("NOPERM", everybody, s.between(leaseTime, 2*leaseTime), func() { s.tell("ACL", "SETUSER", "default", "allkeys") })
	rules := []any{"ACL", "SETUSER", "default", "resetkeys"}
	for _, names := range []string{"[a-f]", mixed, plain, long + "*", own + "*", crew + "*", "back-*", "drain*"} {
		rules = append(rules, "~*{"+names+"}")
	}
	s.tell(rules...)
	return true
}

// damages are the ways to damage the keys of one lock, for somebody who may write them: the record,
// the line, the set and the token.
var damages = [][]any{
	{"HSET", "lock", "lease", "x"},
	{"HSET", "lock", "a:b", "c"},
	{"HSET", "lock", "token", "x", "since", "x", "kept", "x"},
	{"HSET", "lock", "lease", "1e308", "token", "9007199254740992"},
	{"RPUSH", "queue", "x", "1:x", "9:\x1b:7:30000:me:", ":::::"},
	{"ZADD", "waiters", "-9e15", "?", "-9e15", "?x", "1", "x"},
	{"SET", "token", "x"},
	{"SET", "lock", "x"},
	{"SADD", "queue", "x"},
}

// spoils damages the keys of all prey in some way, and deletes them at the end.
func (s *saboteur) spoils() bool {
	key := func(part string, seat *seat) string {
		return "fairlock:" + part + ":{" + prey + seat.life.Process + "}"
	}
	how := damages[0] // this one gets in the way of all other damages
	if s.counts["hostile keys"] > 0 {
		how = damages[s.random.IntN(len(damages))]
	}
	keys := []any{"DEL"}
	for _, seat := range s.seats {
		for _, part := range []string{"lock", "queue", "waiters", "token"} {
			keys = append(keys, key(part, seat))
		}
		command := slices.Clone(how)
		command[1] = key(how[1].(string), seat)
		if how[0] == "SET" || how[0] == "SADD" {
			s.ask("DEL", command[1])
		}
		if !s.ask(command...) { // nobody may write now
			return false
		}
	}
	t := s.trouble("hostile", everybody)
	s.later(t, s.between(leaseTime, 2*leaseTime), func() { s.cleans(t, keys) })
	return true
}

// cleans deletes keys as soon as the server accepts writes.
func (s *saboteur) cleans(t *trouble, keys []any) {
	if !s.ask(keys...) {
		s.later(t, recovery/10, func() { s.cleans(t, keys) })
	}
}

// tears has the messages to a seat's subscribers come in two parts. The pause in between is longer
// than a subscriber waits for a word, and shorter than a claim.
func (s *saboteur) tears() bool {
	seat := s.anyone(flowing)
	if seat == nil {
		return false
	}
	d := s.between(500*time.Millisecond, 900*time.Millisecond)
	tear := func() { seat.proxy.Tear(20, d) } // for one message
	tear()
	for i := range 3 {
		s.after(leaseTime*time.Duration(i+1), tear)
	}
	s.lasting("tear", seat.number, 4*leaseTime, func() { seat.proxy.Tear(0, 0) })
	return true
}

// outage is how long a seat is cut off that has lost its last answers. It is longer than any
// connection, claim or waiting ticket lives.
const outage = 22 * time.Second

// parts has a seat lose some answers, and then its connection for long.
func (s *saboteur) parts() bool {
	if s.counts["long outage"] > 0 && (s.counts["restart without data"] == 0 || s.random.IntN(3) > 0) {
		// An outage takes up most of a minute, so it is not played often.
		return s.rule("drop", 10, faultproxy.SwallowReply())
	}
	seat := s.anyone(func(seat *seat) bool { return flowing(seat) && anybody(seat) })
	if seat == nil {
		return false
	}
	t := s.trouble("outage", seat.number)
	seat.apart, seat.spared = true, true
	lost := seat.proxy.Add(faultproxy.Rule{Match: some(100), Action: faultproxy.SwallowReply()})
	time.Sleep(s.between(leaseTime/10, leaseTime/4)) // some of the lost answers are grants for minutes
	seat.proxy.Refuse(true)
	seat.proxy.CutAll()
	lost.Remove()
	s.later(t, outage+s.between(0, 3*time.Second), func() {
		seat.proxy.Refuse(false)
		seat.apart = false
		// The worker must live to see the end of the outage.
		s.after(2*peace, func() { seat.spared = false })
	})
	return true
}

// holders returns the tickets of all records, by key.
func (a *arena) holders(ctx context.Context) (map[string][]string, error) {
	all := make(map[string][]string)
	for i := range longLocks {
		record := record(fmt.Sprint(long, i))
		fields, err := a.admin.HKeys(ctx, record).Result()
		if err != nil {
			return nil, err
		}
		for _, field := range fields {
			if strings.Contains(field, ":") {
				all[record] = append(all[record], field)
			}
		}
	}
	return all, nil
}
