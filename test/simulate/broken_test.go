package simulate

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/test/race"
	"github.com/fairlock/locks/test/simulate/stage"
)

func TestTheRefereeSeesWhatIsBrokenOnPurpose(t *testing.T) {
	for name, c := range map[string]struct {
		invariant int
		broken    Break
	}{
		"a client that trusts its lock for longer than it may": {1, Break{Trust: 5 * time.Second}},
		"a user that takes longer to stop than it may":         {1, Break{Stop: time.Minute}},
		"a context that lives for longer than its lock":        {1, Break{Context: 5 * time.Second}},
		"a message that names another token":                   {1, Break{Message: largerToken}},
		"a waiter that is told that it was evicted": {2, Break{Message: func(payload string) string {
			if field := strings.Fields(payload); field[0] == "grant" {
				return "evicted " + field[4] + " " + field[5]
			}
			return payload
		}}},
		"tokens that are ahead of the clock": {3, Break{Script: stage.In("enter",
			"last >= us and last + 1 or us", "us + 20000000")}},
		"a lock that is given though it is held": {1, Break{Script: stage.In("enter",
			"local free = not holder.owner and not gathering", "local free = true", "if holder and", "if false and")}},
		"newcomers at the head of the line": {2, Break{Script: stage.In("enter",
			"redis.call('RPUSH', queue, unpack(joining))", "redis.call('LPUSH', queue, unpack(joining))",
			"redis.call('RPUSH', queue, string.format(", "redis.call('LPUSH', queue, string.format(")}},
		"a release that drops the next in line": {2, Break{Script: stage.In("leave",
			"local given = advance()", "redis.call('LPOP', queue) local given = advance()",
			"if owner == '' then owner =", "redis.call('LPOP', queue) if owner == '' then owner =")}},
		"tokens that do not grow": {3, Break{Script: stage.In("leave",
			"last >= us and last + 1 or us", "math.max(last, 1)")}},
		"a release that hands over to nobody": {4, Break{Script: stage.In("leave", "local given = advance()", "local given = nil",
			"head = not (retired", "head = false and not (retired")}},
		"a try that is turned away from a free lock": {4, Break{Script: stage.In("enter",
			"free and line == 0 and (try or", "free and line == 0 and not try and (",
			"elseif try and states[1][1] == 'taken' then", "elseif false then")}},
		"a nested call that fails": {4, Break{Nested: true}},
		"a record that does not end": {5, Break{Script: stage.In("enter",
			"redis.call('PEXPIREAT', record, till)", "redis.call('PERSIST', record)")}},
		"a release by somebody who does not hold": {6, Break{Script: stage.In("leave",
			"redis.call('HDEL', record, ticket)", "redis.call('DEL', record)")}},
		"a loss that is reported as a clean unlock": {6, Break{Unlock: func(error) error { return nil }}},
		"a Locker that does not close":              {7, Break{Leaks: true}},
		"a Locker that is closed and goes on":       {7, Break{Closed: time.Minute}},
		"a release that leaves its ticket behind": {7, Break{Script: stage.In("leave",
			"redis.call('HDEL', record, ARGV[5]) == 1", "redis.call('HEXISTS', record, ARGV[5]) == 1",
			"redis.call('DEL', record)", "", "redis.call('HDEL', record, ticket)", "")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects(t, name, c.invariant, 0, 4, func(plan *Plan) {
				plan.Length, plan.Calm, plan.Break = 6*time.Minute, true, c.broken
			})
		})
	}
}

// objects fails unless the referee objects to what is broken, in one run of those seeds.
func objects(t *testing.T, name string, invariant int, from, to uint64, breaks func(*Plan)) {
	t.Helper()
	if race.Enabled {
		t.Skip("what the referee sees does not depend on the race detector")
	}
	want := fmt.Sprintf("invariant %d:", invariant)
	var others []string
	for seed := from; seed < to; seed++ {
		plan := planOf(seed)
		breaks(&plan)
		o := run(t, plan)
		for _, v := range o.Violations {
			if strings.Contains(v, want) {
				if !strings.Contains(v, fmt.Sprint("make simulate SEEDS=", seed)) || o.Tail == "" {
					t.Errorf("it does not say how to see it again: %s", v)
				}
				return
			}
		}
		others = append(others, o.Violations...)
	}
	t.Errorf("the referee does not object to %s, but: %v", name, others)
}

// Without faults every request is answered.
func TestTheRefereeSeesThatNothingBoundsTheRequestsOfAClientWithoutTimeouts(t *testing.T) {
	objects(t, "requests that nothing bounds", 4, 2, 20, func(plan *Plan) { plan.Troubles, plan.Break.Endless = Endless, true })
}

// In calm weather no hook does anything.
func TestTheRefereeSeesThatARequestThatAHookHasCutShortIsNotRepeated(t *testing.T) {
	objects(t, "a release that is not repeated", 7, 9, 64, func(plan *Plan) { plan.Troubles, plan.Break.Hook = HookCrashes, true })
}

// In calm weather no user has a context of a type of its own.
func TestTheRefereeSeesAContextThatIsAskedInAnotherGoroutine(t *testing.T) {
	objects(t, "a context that is asked elsewhere", 7, 0, 20, func(plan *Plan) { plan.Troubles, plan.Break.Asks = Panics, true })
}

// Nobody is evicted in calm weather.
func TestTheRefereeSeesABrokenEviction(t *testing.T) {
	for name, script := range map[string]func(string, string) string{
		"one that takes the head of the line": stage.In("evict",
			"redis.call('LREM', queue, 1, ARGV[4]) == 0", "not redis.call('LPOP', queue)"),
		"one that nobody is told of": stage.In("evict",
			"mark('!' .. ticket, ", "local _ = (", "tell(string.match(ticket, '^[^:]*'), 'evicted ' .. ticket .. ' ' .. record)", ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects(t, name, 2, 2, 60, func(plan *Plan) {
				plan.Troubles, plan.Break.Script = 0, script
				plan.Names, plan.Actors = 1, 8 // who is evicted would wait for long
			})
		})
	}
}

// largerToken gives a grant on its way a larger token.
func largerToken(payload string) string {
	field := strings.Fields(payload)
	if field[0] != "grant" {
		return payload
	}
	token, _ := strconv.ParseInt(field[3], 10, 64)
	field[3] = strconv.FormatInt(token+1, 10)
	return strings.Join(field, " ")
}

func TestAMutexThatIsHeldWhileTheUsersCodeRunsIsSeen(t *testing.T) {
	var mu sync.Mutex
	look := func() {
		mu.Lock()
		mu.Unlock() //nolint:staticcheck,gocritic // that is all
	}
	clock := realTime(t)
	if !free(clock, look) {
		t.Error("nobody has it")
	}
	mu.Lock()
	defer mu.Unlock()
	if free(clock, look) {
		t.Error("it is held")
	}
}
