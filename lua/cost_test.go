package lua

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/redistest"
)

// calls counts the commands that the scripts of act make, by name.
func (s *site) calls(act func()) map[string]int {
	s.t.Helper()
	s.untidy = true // the commands of check would count, too
	must(s.t, s.rdb.ConfigResetStat(ctx).Err())
	act()
	info, err := s.rdb.Info(ctx, "commandstats").Result()
	must(s.t, err)
	s.untidy = false
	count := map[string]int{}
	for line := range strings.FieldsSeq(info) {
		var n int
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok || strings.HasPrefix(name, "client|") || slices.Contains([]string{"evalsha", "eval", "info", "config|resetstat", "hello", "ping"}, name) {
			continue // not by a script
		}
		if _, err := fmt.Sscanf(rest, "%d,", &n); err != nil {
			s.t.Fatal(line, err)
		}
		count[name] = n
	}
	return count
}

// crowded is a held lock with n reachable waiters.
func crowded(t *testing.T, n int) (s *site, a, b *party, hold string, token int64, line []string) {
	s = onRedis(t)
	s.scripts = s.rdb // the commands that declare keys would count, too
	a, b = s.party("a"), s.party("b")
	hold, token = a.holds(usual)
	a.leave(LeaveTicket{Ticket: parsed(a.ticket(usual)), Retire: true}) // a mark among the deadlines
	line = b.queueMany(n)
	return s, a, b, hold, token, line
}

func TestOrdinaryWorkIsTheSameWhetherFiveWaitOrFiveThousand(t *testing.T) {
	work := map[string]func(s *site, a, b *party, hold string, token int64, line []string){
		"enter of a new ticket": func(_ *site, a, _ *party, _ string, _ int64, _ []string) { a.waits(usual) },
		"enter with a bound": func(_ *site, a, _ *party, _ string, _ int64, _ []string) {
			a.ask(EnterTicket{Ticket: parsed(a.ticket(usual)), MaxWaiters: 10_000})
		},
		"enter of a full line": func(_ *site, a, _ *party, _ string, _ int64, _ []string) {
			a.ask(EnterTicket{Ticket: parsed(a.ticket(usual)), MaxWaiters: 3})
		},
		"try":                       func(_ *site, a, _ *party, _ string, _ int64, _ []string) { a.try(a.ticket(usual)) },
		"heartbeat of the first":    func(_ *site, _, b *party, _ string, _ int64, line []string) { b.enter(line[0], 1) },
		"heartbeat of the last":     func(_ *site, _, b *party, _ string, _ int64, line []string) { b.enter(line[len(line)-1], 1) },
		"leave with hand-over":      func(_ *site, a, _ *party, hold string, token int64, _ []string) { a.leaves(hold, token, Held) },
		"leave to one's own ticket": func(_ *site, _, b *party, hold string, token int64, _ []string) { b.leaves(hold, token, Held) },
		"leave of a stranger":       func(_ *site, a, _ *party, _ string, _ int64, _ []string) { a.leaves(a.ticket(usual), 0, Neither) },
		"leave of a known place": func(s *site, _, b *party, _ string, _ int64, line []string) {
			b.leave(LeaveTicket{Ticket: parsed(line[2]), Place: s.placeOf(2)})
		},
		"force":    func(_ *site, a, _ *party, _ string, token int64, _ []string) { a.forces(token) },
		"renew":    func(_ *site, a, _ *party, hold string, token int64, _ []string) { a.renews(a.renewal(hold, token)) },
		"reassert": func(_ *site, a, _ *party, hold string, token int64, _ []string) { a.reasserts(a.renewal(hold, token)) },
		"reassert after a loss": func(s *site, a, _ *party, hold string, token int64, _ []string) {
			s.rdb.Del(ctx, s.keys.Record(), s.keys.Token())
			a.reasserts(a.renewal(hold, token))
		},
		"inspect": func(_ *site, a, _ *party, _ string, _ int64, _ []string) { a.inspects() },
		"enter that finds it free": func(s *site, a, _ *party, _ string, _ int64, _ []string) {
			s.rdb.Del(ctx, s.keys.Record())
			a.waits(usual)
		},
		"heartbeat that finds free": func(s *site, _, b *party, _ string, _ int64, line []string) {
			s.rdb.Del(ctx, s.keys.Record())
			b.enter(line[0], 1)
		},
		"try that finds it free": func(s *site, a, _ *party, _ string, _ int64, _ []string) {
			s.rdb.Del(ctx, s.keys.Record())
			a.try(a.ticket(usual))
		},
		"leave that retires": func(_ *site, a, _ *party, hold string, token int64, _ []string) {
			a.leave(LeaveTicket{Ticket: parsed(hold), Token: token, Retire: true})
		},
		"return to the line's end": func(s *site, a, _ *party, _ string, _ int64, _ []string) { a.enter(a.ticket(usual), s.placeOf(-1)+1) },
		"enter after a loss of token": func(s *site, a, _ *party, _ string, token int64, _ []string) {
			s.rdb.Del(ctx, s.keys.Token())
			a.send(Enter{Seen: token, Tickets: []EnterTicket{{Ticket: parsed(a.ticket(usual))}}})
		},
	}
	for what, act := range work {
		t.Run(what, func(t *testing.T) {
			var few, many map[string]int
			for n, count := range map[int]*map[string]int{5: &few, 5000: &many} {
				s, a, b, hold, token, line := crowded(t, n)
				*count = s.calls(func() { act(s, a, b, hold, token, line) })
				delete(*count, "pexpireat") // once in five seconds, a waiter that joins sends two more of them
			}
			if len(few) == 0 || !maps.Equal(few, many) {
				t.Errorf("with five:\n%v\nwith five thousand:\n%v", few, many)
			}
		})
	}
}

// placeOf returns the place of the i-th ticket in line; a negative i counts from the end.
func (s *site) placeOf(i int64) (place Place) {
	s.t.Helper()
	element, err := s.rdb.LIndex(ctx, s.keys.Queue(), i).Result()
	must(s.t, err)
	_, err = fmt.Sscanf(element, "%d:", &place)
	must(s.t, err)
	return place
}

func TestADeadClientIsAskedForOnce(t *testing.T) {
	s, a, b, hold, token, _ := crowded(t, 300)
	b.die()
	calls := s.calls(func() { a.leaves(hold, token, Held) })
	equal(t, "dropped", calls["lpop"], 300)
	equal(t, "asked", calls["pubsub|numsub"], 1)
}

func TestWithoutContentionAcquireAndReleaseAreAFewCommands(t *testing.T) {
	s := onRedis(t)
	s.scripts = s.rdb
	a := s.party("a")
	ticket, token := a.holds(usual) // loads the scripts
	a.leaves(ticket, token, Held)
	calls := s.calls(func() { ticket, token = a.holds(usual) })
	equal(t, "acquire", fmt.Sprint(calls), fmt.Sprint(map[string]int{"exists": 1, "get": 1, "time": 1, "set": 1, "hset": 1, "pexpireat": 1}))
	calls = s.calls(func() { a.leaves(ticket, token, Held) })
	equal(t, "release", fmt.Sprint(calls), fmt.Sprint(map[string]int{"exists": 1, "hdel": 1, "del": 1}))
	again := Enter{Seen: token, Tickets: []EnterTicket{{Ticket: parsed(a.ticket(usual))}}}
	calls = s.calls(func() { a.send(again) })
	equal(t, "acquire again", fmt.Sprint(calls), fmt.Sprint(map[string]int{"exists": 1, "get": 1, "time": 1, "set": 1, "hset": 1, "pexpireat": 1}))
}

func TestARenewalIsThreeCommandsForEachHoldAndOneForAll(t *testing.T) {
	s := onRedis(t)
	s.scripts = s.rdb
	a := s.party("a")
	var all []Renewal
	for _, name := range []string{"x", "y", "z"} {
		s.keys = keysOf(t, name)
		all = append(all, a.renewal(a.holds(usual)))
	}
	for granted := s.now() / 1000; s.now()/1000 == granted; { // else the leases end when they did already
	}
	calls := s.calls(func() {
		for _, renewed := range a.Renew(ctx, all) {
			must(t, renewed.Err)
			equal(t, "remaining", renewed.Remaining, usual)
		}
	})
	equal(t, "renewal", fmt.Sprint(calls), fmt.Sprint(map[string]int{"time": 1, "hmget": 3, "pexpireat": 3, "hset": 3}))
}

func TestInAnOrdinaryLineJoiningAndHandingOverAreAFewCommands(t *testing.T) {
	s := onRedis(t)
	s.scripts = s.rdb
	a, b := s.party("a"), s.party("b")
	hold, token := a.holds(usual)
	b.waits(usual)
	a.leave(LeaveTicket{Ticket: parsed(a.ticket(usual)), Retire: true}) // a busy lock always has some tickets that left this way
	joins := s.calls(func() { b.send(Enter{Seen: token, Tickets: []EnterTicket{{Ticket: parsed(b.ticket(usual))}}}) })
	delete(joins, "pexpireat") // once in five seconds, a waiter that joins sends two
	equal(t, "join", fmt.Sprint(joins), fmt.Sprint(map[string]int{
		"time": 1, "exists": 1, "hmget": 1, "get": 1, "lindex": 1, "llen": 1, "zcount": 1, "zmscore": 1, "pubsub|numsub": 1, "zadd": 1, "rpush": 1, "pttl": 1,
	}))
	hands := s.calls(func() { a.leaves(hold, token, Held) })
	equal(t, "hand over", fmt.Sprint(hands), fmt.Sprint(map[string]int{
		"time": 1, "exists": 1, "lrange": 1, "llen": 1, "zcount": 1, "zmscore": 1, "get": 1, "pubsub|numsub": 1,
		"hdel": 1, "lpop": 1, "zrem": 1, "set": 1, "hset": 1, "pexpireat": 1, "publish": 1,
	}))
}

func TestACrowdThatJoinsOrStaysInOneRequestIsWrittenAtOnce(t *testing.T) {
	s := onRedis(t)
	s.scripts = s.rdb
	a, b := s.party("a"), s.party("b")
	a.holds(usual)
	b.waits(usual)
	var crowd []EnterTicket
	for range 20 {
		crowd = append(crowd, EnterTicket{Ticket: parsed(b.ticket(usual))})
	}
	var answer Entered
	joins := s.calls(func() { answer = b.ask(crowd...) })
	equal(t, "joining", fmt.Sprint(joins["lindex"], joins["rpush"], joins["zadd"]), "1 1 1")
	for i, state := range answer.Tickets {
		crowd[i].Place = state.Place
	}
	stays := s.calls(func() { b.ask(crowd...) })
	equal(t, "staying", fmt.Sprint(stays["lindex"], stays["rpush"], stays["zadd"]), "0 0 1")
}

// The scripts take all dead tickets of a process out of the line in one walk, and likewise all
// tickets that a process gives up at once.
func TestNoRequestWalksALineMoreThanOnce(t *testing.T) {
	const long, some = 5000, 300
	entersOf := func(line []string, place func(int) Place, tell bool) (all []EnterTicket) {
		for i, ticket := range line {
			all = append(all, EnterTicket{Ticket: parsed(ticket), Place: place(i), Tell: tell})
		}
		return all
	}
	leavesOf := func(line []string, place func(int) Place) (all []LeaveTicket) {
		for i, ticket := range line {
			all = append(all, LeaveTicket{Ticket: parsed(ticket), Place: place(i)})
		}
		return all
	}
	for what, act := range map[string]func(a, b *party, line []string, place func(int) Place, unknown func(int) Place){
		"sweep of the first": func(a, _ *party, line []string, _, _ func(int) Place) {
			a.s.age(line[:some]...)
			a.ask(EnterTicket{Ticket: parsed(a.ticket(usual)), MaxWaiters: long})
		},
		"sweep of the last": func(a, _ *party, line []string, _, _ func(int) Place) {
			a.s.age(line[long-some:]...)
			a.ask(EnterTicket{Ticket: parsed(a.ticket(usual)), MaxWaiters: long})
		},
		"leave of many who know their places": func(_, b *party, line []string, place, _ func(int) Place) {
			b.leave(leavesOf(line[:some], place)...)
		},
		"leave of many who do not": func(_, b *party, line []string, _, unknown func(int) Place) {
			b.leave(leavesOf(line[:some], unknown)...)
		},
		"enter of many who do not know their places": func(_, b *party, line []string, _, unknown func(int) Place) {
			b.ask(entersOf(line[:some], unknown, false)...)
		},
		"enter of many who want to know their positions": func(_, b *party, line []string, place, _ func(int) Place) {
			b.ask(entersOf(line[:some], place, true)...)
		},
		"enter where the deadlines are gone": func(a, b *party, line []string, place, _ func(int) Place) {
			a.s.rdb.Del(ctx, a.s.keys.Waiters())
			b.ask(entersOf(line[:some], place, false)...)
		},
	} {
		t.Run(what, func(t *testing.T) {
			s, a, b, _, _, line := crowded(t, long)
			elements, err := s.rdb.LRange(ctx, s.keys.Queue(), 0, -1).Result()
			must(t, err)
			place := func(i int) (at Place) {
				_, err := fmt.Sscanf(elements[i], "%d:", &at)
				must(t, err)
				return at
			}
			calls := s.calls(func() { act(a, b, line, place, func(int) Place { return 0 }) })
			if calls["lrange"] > long/500 || calls["lrem"] > 1 || calls["lpos"] > 1 {
				t.Errorf("%v", calls)
			}
		})
	}
}

// A client that waits for a moment and leaves is marked as blind, and no later request looks for
// the mark.
func TestMarksOfThoseWhoCameAndWentDoNotPileUp(t *testing.T) {
	twice(t, func(t *testing.T, s *site) {
		a := s.party("a")
		s.untidy = true
		a.holds(usual)
		for i := range 1000 {
			b := s.deaf(fmt.Sprint("b", i))
			ticket, place := b.waits(usual)
			b.leave(LeaveTicket{Ticket: parsed(ticket), Place: place})
			if i%100 == 99 { // as if a second had passed
				marks, err := s.rdb.ZRangeByScore(ctx, s.keys.Waiters(), &redis.ZRangeBy{Min: "-inf", Max: "(0"}).Result()
				must(t, err)
				s.age(marks...)
			}
		}
		if n := s.rdb.ZCard(ctx, s.keys.Waiters()).Val(); n > 200 {
			t.Errorf("%d members are left", n)
		}
	})
}

// BenchmarkSweep measures what a newcomer costs a server whose line is full of dead tickets. On
// Redis 7.0.15 with two busy cores: 1.1 ms. With one walk for each of the hundred swept tickets it
// was 1,270 ms.
func BenchmarkSweep(b *testing.B) {
	const dead = 10_000
	server := redistest.Start(b)
	s := &site{keys: keysOf(b, "x"), rdb: server.Client(b), untidy: true}
	s.scripts = s.rdb
	a := s.deaf("a")
	enters := func(tickets ...EnterTicket) {
		if _, err := a.Enter(ctx, s.keys, Enter{Spare: usual, Tickets: tickets}); err != nil {
			b.Fatal(err)
		}
	}
	enters(EnterTicket{Ticket: parsed(a.ticket(usual))})
	for b.Loop() {
		b.StopTimer()
		s.rdb.Del(ctx, s.keys.Queue(), s.keys.Waiters())
		line, deadlines := make([]any, dead), make([]redis.Z, dead)
		for i := range line {
			ticket := a.ticket(usual)
			line[i], deadlines[i] = fmt.Sprintf("%d:%s", i+1, ticket), redis.Z{Score: float64(i), Member: ticket}
		}
		must(b, s.rdb.RPush(ctx, s.keys.Queue(), line...).Err())
		must(b, s.rdb.ZAdd(ctx, s.keys.Waiters(), deadlines...).Err())
		b.StartTimer()
		enters(EnterTicket{Ticket: parsed(a.ticket(usual)), MaxWaiters: dead})
	}
}

func TestWhoWaitsLeavesInAFewCommands(t *testing.T) {
	s, _, b, _, _, line := crowded(t, 5)
	place := s.placeOf(2)
	calls := s.calls(func() { b.leave(LeaveTicket{Ticket: parsed(line[2]), Place: place}) })
	equal(t, "leave", fmt.Sprint(calls), fmt.Sprint(map[string]int{
		"time": 1, "get": 1, "hmget": 1, "llen": 1, "zcount": 1, "hget": 1, "hdel": 1, "zrem": 1, "lrem": 1, "hgetall": 1, "pexpiretime": 1, "pexpireat": 1,
	}))
}

func TestAForceSendsNoMoreThanItsMessage(t *testing.T) {
	s := onRedis(t)
	s.scripts = s.rdb
	a := s.party("a")
	_, token := a.holds(usual)
	calls := s.calls(func() { a.forces(token) })
	equal(t, "messages", calls["publish"], 1)
}

func TestAWalkEndsAtTheLastTicketThatItLooksFor(t *testing.T) {
	for what, act := range map[string]func(b *party, some []string){
		"leave of one": func(b *party, some []string) { b.leave(LeaveTicket{Ticket: parsed(some[0])}) },
		"leave of two": func(b *party, some []string) {
			b.leave(LeaveTicket{Ticket: parsed(some[0])}, LeaveTicket{Ticket: parsed(some[1])})
		},
		"enter of one": func(b *party, some []string) { b.ask(EnterTicket{Ticket: parsed(some[0])}) },
		"enter of two": func(b *party, some []string) {
			b.ask(EnterTicket{Ticket: parsed(some[0])}, EnterTicket{Ticket: parsed(some[1])})
		},
		"enter of one and a newcomer": func(b *party, some []string) {
			b.ask(EnterTicket{Ticket: parsed(some[0])}, EnterTicket{Ticket: parsed(b.ticket(usual))})
		},
		"enter of one and another that knows its place": func(b *party, some []string) {
			b.ask(EnterTicket{Ticket: parsed(some[0])}, EnterTicket{Ticket: parsed(some[1]), Place: b.s.placeOf(-1)})
		},
	} {
		t.Run(what, func(t *testing.T) {
			s, _, b, _, _, line := crowded(t, 1500)
			calls := s.calls(func() { act(b, line[1498:]) })
			equal(t, "pieces of the line", calls["lrange"], 1)
			if strings.HasPrefix(what, "leave of one") {
				equal(t, "removals", calls["lrem"], 1)
				equal(t, "elements that are overwritten", calls["lset"], 0)
			}
		})
	}
	t.Run("mend", func(t *testing.T) {
		s, _, b, _, _, line := crowded(t, 400)
		must(t, s.rdb.ZRem(ctx, s.keys.Waiters(), line[0]).Err())
		calls := s.calls(func() { b.ask(EnterTicket{Ticket: parsed(line[1]), Place: s.placeOf(1)}) })
		equal(t, "pieces of the line", calls["lrange"], 1)
		equal(t, "removals", calls["lrem"], 0)
	})
	t.Run("sweep", func(t *testing.T) {
		s, a, _, _, _, line := crowded(t, 1500)
		s.age(line[1], line[3])
		calls := s.calls(func() { a.ask(EnterTicket{Ticket: parsed(a.ticket(usual)), MaxWaiters: 1500}) })
		equal(t, "pieces of the line", calls["lrange"], 1)
	})
}

func TestAHeartbeatIsAFewCommands(t *testing.T) {
	s, _, b, _, _, line := crowded(t, 5)
	heartbeat := map[string]int{
		"time": 1, "get": 1, "hmget": 1, "llen": 1, "zcount": 1, "zmscore": 1, "pubsub|numsub": 1, "zadd": 1, "pttl": 1, "pexpireat": 3,
	}
	beat := EnterTicket{Ticket: parsed(line[1]), Place: s.placeOf(1)}
	other := EnterTicket{Ticket: parsed(line[2]), Place: s.placeOf(2)}
	calls := s.calls(func() { b.ask(beat) })
	equal(t, "heartbeat", fmt.Sprint(calls), fmt.Sprint(heartbeat))
	beat.Tell, heartbeat["lpos"] = true, 2
	calls = s.calls(func() { b.ask(beat) })
	equal(t, "with the position", fmt.Sprint(calls), fmt.Sprint(heartbeat))
	calls = s.calls(func() { b.ask(beat, other) })
	equal(t, "with the position of one of two", fmt.Sprint(calls), fmt.Sprint(heartbeat))
}

func TestWhoIsTurnedAwayIsSoInAFewCommands(t *testing.T) {
	s, a, _, _, _, _ := crowded(t, 5)
	calls := s.calls(func() { a.ask(EnterTicket{Ticket: parsed(a.ticket(usual)), MaxWaiters: 3}) })
	equal(t, "full", fmt.Sprint(calls), fmt.Sprint(map[string]int{"time": 1, "get": 1, "llen": 1, "hmget": 1, "zmscore": 1, "zcount": 1, "pttl": 1}))
	s.forgetLine()
	calls = s.calls(func() { a.try(a.ticket(usual)) })
	equal(t, "taken", fmt.Sprint(calls), fmt.Sprint(map[string]int{"time": 1, "get": 1, "exists": 2, "hmget": 1, "pttl": 1}))
}
