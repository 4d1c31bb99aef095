package explore

import (
	"slices"
	"strings"
	"testing"
)

// mutation is a fault put in on purpose, where it should be found, and what it breaks.
type mutation struct {
	name     string
	changes  []change
	rules    rules
	scenario scenario
	breaks   []int
}

var mutations = []mutation{
	{
		name:     "a ticket that is taken out of the line stays in the set",
		changes:  []change{{"parts/grant.lua", "redis.call('ZREM', waiters, ticket)\n", ""}},
		scenario: all(once, budget{}),
		breaks:   []int{4},
	}, {
		name:     "nobody is asked whether the next one is reachable",
		changes:  []change{{"parts/advance.lua", "client ~= me and not hears(client) and not valid(blind)", "false"}, {"leave.lua", "if deaf then dead[deaf] = true end", ""}},
		scenario: all(once, budget{faults: 1, crash: 1}),
		breaks:   []int{4},
	}, {
		name:     "a hand-over does not ask whether the next one is reachable",
		changes:  []change{{"parts/usual_leave.lua", "if not deaf and ", "if "}},
		scenario: all(once, budget{faults: 1, crash: 1}),
		breaks:   []int{4},
	}, {
		name:     "a hand-over does not look at the deadline",
		changes:  []change{{"parts/usual_leave.lua", "if ordinary and deadline and (tonumber(deadline) or 0) > ms", "if ordinary and deadline"}},
		scenario: all(once, budget{ticks: 3, faults: 1, stop: 1}),
		breaks:   []int{4},
	}, {
		name:     "who joins the line is not asked whether it stands there",
		changes:  []change{{"parts/usual_enter.lua", "not (deadline or retired", "not (retired"}},
		scenario: all(once, budget{faults: 1, late: 1}),
		breaks:   []int{2, 4, 8},
	}, {
		name:     "who joins the line is not asked whether it was retired",
		changes:  []change{{"parts/usual_enter.lua", "deadline or retired or", "deadline or"}},
		scenario: all(fickle, budget{faults: 1, late: 1}),
		breaks:   []int{8},
	}, {
		name:     "a renewal does not ask whether there is such a hold",
		changes:  []change{{"renew.lua", "if deadline > ms then", "if true then"}},
		scenario: all(once, budget{faults: 1, late: 1}),
		breaks:   []int{5},
	}, {
		name:     "leave does not let the next one have the lock",
		changes:  []change{{"parts/rest.lua", "local given = advance()", "local given"}, {"parts/usual_leave.lua", "if ordinary and deadline and (tonumber(deadline) or 0) > ms", "if false"}},
		scenario: all(once, budget{}),
		breaks:   []int{4},
	}, {
		name:     "force does not let the next one have the lock",
		changes:  []change{{"force.lua", "local given = advance()", "local given"}},
		scenario: all(once, budget{force: 1}),
		breaks:   []int{4},
	}, {
		name:     "a token is given twice",
		changes:  []change{{"parts/record.lua", "last >= us and last + 1 or us", "math.max(last, us)"}},
		scenario: all(once, budget{}).clockSetBack(),
		breaks:   []int{3},
	}, {
		name:     "an overdue waiter is granted",
		changes:  []change{{"parts/advance.lua", "deadline and number(deadline, math.huge) > ms", "deadline"}},
		scenario: all(once, budget{ticks: 3, faults: 1, stop: 1}),
		breaks:   []int{4},
	}, {
		name:     "a newcomer takes a free lock before those in line",
		changes:  []change{{"parts/ask.lua", "if free and line == 0 and", "if free and (line == 0 or at == 0) and"}},
		scenario: all(once, budget{ticks: 1}),
		breaks:   []int{2},
	}, {
		name:     "who comes back goes to the end of the line",
		changes:  []change{{"parts/place.lua", "if not tail or place_of(tail) <= at then", "if true then"}},
		scenario: all(once, budget{ticks: 0, faults: 1, deaf: 1, flush: 1}),
		breaks:   []int{2},
	}, {
		name:     "a blind client is passed over",
		changes:  []change{{"parts/advance.lua", "and not valid(blind)", ""}},
		scenario: all(once, budget{}).notYetHeard(),
		breaks:   []int{2, 4},
	}, {
		name:     "no placeholder for a holder that the server forgot",
		changes:  []change{{"parts/placeholder.lua", "local forgot = seen > last", "local forgot = false"}, {"parts/placeholder.lua", "--#include parts/forget.lua", "local lost = false"}, {"parts/usual_enter.lua", "if not full and last >= seen and", "if not full and"}},
		scenario: all(once, budget{faults: 1, flush: 1}),
		breaks:   []int{1},
	}, {
		name:     "those who wait put the end of a placeholder off",
		changes:  []change{{"parts/placeholder.lua", "spare > holder.lease", "true"}, {"parts/placeholder.lua", "since + spare", "ms + spare"}},
		scenario: all(once, budget{faults: 1, flush: 1}),
		breaks:   []int{4},
	}, {
		name:     "a heartbeat does not put the deadline off",
		changes:  []change{{"parts/ask.lua", "if one.deadline and at > 0 then\n    redis.call('ZADD', waiters, num(ms + LIVENESS), ticket)", "if one.deadline and at > 0 then"}},
		scenario: all(once, budget{ticks: 3}),
		breaks:   []int{2, 4},
	}, {
		name:     "a retired ticket may enter",
		changes:  []change{{"parts/ask.lua", "if one.retired then return {'gone'} end", ""}},
		scenario: all(fickle, budget{faults: 1, late: 1}),
		breaks:   []int{8},
	}, {
		name:     "force ends whatever ownership there is",
		changes:  []change{{"force.lua", "if present ~= forced then return {0, 0, {}} end", ""}},
		scenario: all(once, budget{faults: 1, late: 1, force: 1}),
		breaks:   []int{6, 8},
	}, {
		name:     "a forced or released hold can be asserted again",
		changes:  []change{{"reassert.lua", "(lost or", "(present < token or"}},
		scenario: all(once, budget{faults: 0, force: 1}),
		breaks:   []int{8},
	}, {
		name:     "anybody may assert a placeholder",
		changes:  []change{{"reassert.lua", "or awaited or", "or kept > ms or"}},
		scenario: all(once, budget{flush: 1}.with(0, 1).forced(1)),
		breaks:   []int{1},
	}, {
		name:     "a ticket that a late request put to the end stays there",
		changes:  []change{{"parts/ask.lua", "if one.deadline and at > 0 and one.told", "if false"}},
		scenario: all(once, budget{late: 1}.with(2, 1)),
		breaks:   []int{2},
	}, {
		name:     "who asserts a hold goes on waiting",
		changes:  []change{{"reassert.lua", "if redis.call('ZREM', waiters, ticket) == 1 then", "if false then"}},
		scenario: all(once, budget{lose: 1, flush: 1}.with(1, 2)),
		breaks:   []int{2, 7, 8},
	}, {
		name:     "the line has no end of its own",
		changes:  []change{{"enter.lua", "redis.call('PEXPIREAT', queue, num(ms + LINE_TTL))\n  if not try", "if not try"}, {"parts/usual_enter.lua", "redis.call('PEXPIREAT', queue, string.format('%d', ms + LINE_TTL))\n", ""}},
		scenario: all(once, budget{}),
		breaks:   []int{5},
	}, {
		name:     "a release shortens what others of its owner hold",
		changes:  []change{{"parts/rest.lua", "if latest > 0 then", "if false then"}},
		scenario: all(once, budget{}).owned(1<<0 | 1<<2),
		breaks:   []int{6},
	}, {
		name:     "the client believes receipt and claim",
		rules:    rules{believeReceipt: true},
		scenario: all(once, budget{ticks: 2}),
		breaks:   []int{1},
	}, {
		name:     "the client believes a grant that is older than a waiting answer",
		rules:    rules{believeOlder: true},
		scenario: all(once, budget{force: 1}),
		breaks:   []int{1},
	}, {
		name:     "the client believes an answer that a later one overtook",
		rules:    rules{believeOvertaken: true},
		scenario: mixed(once, once, absentee, budget{lose: 1, delay: 1}.with(0, 2).forced(1)),
		breaks:   []int{1},
	}, {
		name:     "the client counts an answer's time from its receipt",
		rules:    rules{trustFromAnswer: true},
		scenario: all(once, budget{ticks: 2, faults: 1, delay: 1}),
		breaks:   []int{1},
	}, {
		name:     "the client takes a renewal for granted",
		rules:    rules{trustUnanswered: true},
		scenario: all(once, budget{ticks: 2, faults: 1, late: 1}),
		breaks:   []int{1},
	}, {
		name:     "the client trusts the lock until its release is answered",
		rules:    rules{trustInRelease: true},
		scenario: all(once, budget{faults: 1, lose: 1}),
		breaks:   []int{1},
	}, {
		name:     "the client never retires a ticket",
		rules:    rules{neverRetire: true},
		scenario: all(fickle, budget{faults: 1, late: 1}),
		breaks:   []int{8},
	}, {
		name:     "the client does not tell what it has seen",
		rules:    rules{neverSeen: true},
		scenario: all(once, budget{faults: 1, flush: 1}),
		breaks:   []int{1},
	}, {
		name:     "the client reports every release as clean",
		rules:    rules{alwaysClean: true},
		scenario: all(once, budget{force: 1}),
		breaks:   []int{6},
	}, {
		name:     "the client goes on when it hears that it was forced",
		rules:    rules{ignoreForce: true},
		scenario: all(once, budget{force: 1}),
		breaks:   []int{1},
	}, {
		name:     "the client goes from finished back to held",
		rules:    rules{believeFinished: true},
		scenario: all(fickle, budget{}),
		breaks:   []int{1},
	}, {
		name:     "the client leaves a forced hold only if a request of it is open",
		rules:    rules{forgetLost: true},
		scenario: all(once, budget{delay: 1}.with(0, 1).forced(1)),
		breaks:   []int{7},
	}, {
		name:     "the client does not leave a hold whose time is over and of which a request is open",
		rules:    rules{forgetOpen: true},
		scenario: all(once, budget{lose: 1}.with(1, 1)),
		breaks:   []int{7},
	}, {
		name:     "the client forgets a try that was granted too late",
		rules:    rules{forgetTry: true},
		scenario: mixed(hasty, hasty, once, budget{delay: 1}.with(1, 1)),
		breaks:   []int{7},
	}, {
		name:     "the client ignores an answer to a ticket that has left",
		rules:    rules{ignoreLater: true},
		scenario: mixed(fickle, fickle, absentee, budget{delay: 1, flush: 1}.with(0, 2)),
		breaks:   []int{7},
	}, {
		name:     "the client has a Lease after Close",
		rules:    rules{closeInWindow: true},
		scenario: mixed(slow, slow, absentee, budget{}.with(1, 0).closing()),
		breaks:   []int{1},
	}, {
		name:     "the client keeps a hold whose caller is gone before it had a Lease",
		rules:    rules{keepInWindow: true},
		scenario: mixed(slow, slow, absentee, budget{}),
		breaks:   []int{7},
	}, {
		name:     "the client does not notice that who waits is gone",
		rules:    rules{vanish: true},
		scenario: mixed(slow, slow, absentee, budget{}),
		breaks:   []int{7},
	}, {
		name:     "the client is closed and does not leave the line",
		rules:    rules{closeInLine: true},
		scenario: mixed(once, once, absentee, budget{}.closing()),
		breaks:   []int{7},
	}, {
		name:     "the client gives its leave up while the lease goes on",
		rules:    rules{impatient: true},
		scenario: mixed(fickle, fickle, absentee, budget{lose: 1, swallowed: 1, tired: 1}.with(2, 2)),
		breaks:   []int{7},
	}, {
		name:     "the client asks again with its next heartbeat only",
		rules:    rules{askSeldom: true},
		scenario: all(once, budget{stop: 1}.with(0, 1)),
		breaks:   []int{4},
	}, {
		name:     "the client believes a grant of another lock",
		rules:    rules{believeForged: true},
		scenario: all(once, budget{forged: 1}.with(0, 1)),
		breaks:   []int{1},
	},
}

func TestEveryMutationIsFound(t *testing.T) {
	unchanged := start(t)
	for i, m := range mutations {
		if raceDetector && i%10 != 0 {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			sv := unchanged
			if len(m.changes) > 0 {
				sv = start(t, m.changes...)
			}
			m.scenario.rules = m.rules
			r := search(sv, m.scenario)
			if r.fault == nil {
				t.Fatalf("not found in %d states", r.states)
			}
			t.Logf("%d moves, %d states, %v\n%s", r.depth, r.states, r.took.Round(1e6), strings.Join(r.history, "\n"))
			if !slices.Contains(m.breaks, r.fault.invariant) {
				t.Errorf("found %v, want one of %v", r.fault, m.breaks)
			}
		})
	}
}

// start returns a server with the scripts, changed.
func start(t *testing.T, changes ...change) *server {
	t.Helper()
	sv, err := newServer("../../lua", 2, changes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sv.close(); err != nil {
			t.Error(err)
		}
	})
	return sv
}
