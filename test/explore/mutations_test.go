package explore

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fairlock/locks/test/overlay"
	"github.com/fairlock/locks/test/race"
)

// mutation is a deliberate fault: what it breaks, and the scenario in which the search must find
// it.
type mutation struct {
	name     string
	changes  []change // of the scripts, or of the rules
	scenario scenario
	breaks   []int
}

var mutations = []mutation{
	{
		name:     "those that had a turn stay in the set",
		changes:  []change{{"parts/usual_leave.lua", "redis.call('ZREM', waiters, unpack(turns))", ""}},
		scenario: mixed(atOnce, once, once, budget{}),
		breaks:   []int{4},
	}, {
		name:     "a release does not ask whether those that had a turn are next",
		changes:  []change{{"parts/usual_leave.lua", "ordinary and string.sub(line[k] or '', -#turn - 1) == ':' .. turn", "ordinary"}},
		scenario: mixed(atOnce, once, once, budget{faults: 1, deaf: 1}),
		breaks:   []int{2, 4, 7, 8},
	}, {
		name:     "a run goes past the ticket of another client",
		changes:  []change{{"parts/run.lua", "if whose ~= client then break end", ""}},
		scenario: mixed(atOnce, once, once, budget{}),
		breaks:   []int{strange},
	}, {
		name:     "a run begins with the ticket of another client",
		changes:  []change{{"parts/run.lua", "if whose == client then", "if whose then"}, {"parts/run.lua", "if whose ~= client then break end", "if whose == client then"}, {"parts/run.lua", "counters[#counters + 1] = counter\n", "counters[#counters + 1] = counter end\n"}},
		scenario: mixed(atOnce, once, once, budget{}),
		breaks:   []int{2},
	}, {
		name:     "who has its turn on another's hold still counts as waiting",
		changes:  []change{{"waiter.go", "\tw.OnServer = true\n\tw.Phase = Granted\n}", "\tw.OnServer = true\n}"}},
		scenario: mixed(crowd, once, absentee, budget{faults: 1, delay: 1, ticks: 1}),
		breaks:   []int{1, 7},
	}, {
		name:     "those that join in one request are told so, and not written",
		changes:  []change{{"enter.lua", "\nwrite()\n", "\n"}},
		scenario: mixed(crowd, once, absentee, budget{}),
		breaks:   []int{2, 4, 7},
	}, {
		name:     "a ticket that is taken out of the line stays in the set",
		changes:  []change{{"parts/grant.lua", "redis.call('ZREM', waiters, ticket)\n", ""}},
		scenario: all(once, budget{}),
		breaks:   []int{4},
	}, {
		name: "nobody is asked whether the next one is reachable",
		changes: []change{
			{"parts/advance.lua", "client ~= me and not hears(client) and not valid(blind)", "false"},
			{"leave.lua", "if deaf then passed_over[deaf] = true end", ""},
		},
		scenario: all(once, budget{faults: 1, crash: 1}),
		breaks:   []int{4},
	}, {
		name:     "a hand-over does not ask whether the next one is reachable",
		changes:  []change{{"parts/usual_leave.lua", "if not heard then deaf, head = client, false end", ""}},
		scenario: all(once, budget{faults: 1, crash: 1}),
		breaks:   []int{4},
	}, {
		name:     "a hand-over does not look at the deadline",
		changes:  []change{{"parts/usual_leave.lua", "and (tonumber(deadline or 0) or 0) > ms", "and deadline"}},
		scenario: all(once, budget{ticks: 3, faults: 1, stop: 1}),
		breaks:   []int{4},
	}, {
		name:     "who joins the line is not asked whether it stands there",
		changes:  []change{{"parts/usual_enter.lua", "not (deadline or retired", "not (retired"}},
		scenario: all(once, budget{faults: 1, late: 1}),
		breaks:   []int{2, 4, 8, strange},
	}, {
		name:     "who joins the line is not asked whether it was retired",
		changes:  []change{{"parts/usual_enter.lua", "deadline or retired or", "deadline or"}},
		scenario: all(fickle, budget{faults: 1, late: 1}),
		breaks:   []int{8},
	}, {
		name:     "a renewal does not ask whether there is such a hold",
		changes:  []change{{"renew.lua", "if deadline > ms then", "if true then"}},
		scenario: all(once, budget{faults: 1, late: 1}),
		breaks:   []int{strange},
	}, {
		name: "leave does not let the next one have the lock",
		changes: []change{
			{"parts/rest.lua", "local given = advance()", "local given"},
			{"parts/usual_leave.lua", "head = not (retired", "head = false and not (retired"},
		},
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
		name: "a try is turned away while anything is left in the set",
		changes: []change{
			{"parts/ask.lua", "if free and line == 0 and (try or", "if free and line == 0 and not try and ("},
			{"enter.lua", "elseif try and states[1][1] == 'taken' then", "elseif false then"},
		},
		scenario: mixed(hasty, hasty, once, budget{}).notYetHeard(),
		breaks:   []int{4},
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
		name: "no placeholder for a holder that the server forgot",
		changes: []change{
			{"parts/placeholder.lua", "local forgot = seen > last", "local forgot = false"},
			{"parts/placeholder.lua", "--#include parts/forget.lua", "local lost = false"},
			{"parts/usual_enter.lua", "if not full and last >= seen and", "if not full and"},
		},
		scenario: all(once, budget{faults: 1, flush: 1}),
		breaks:   []int{1},
	}, {
		name:     "those who wait put the end of a placeholder off",
		changes:  []change{{"parts/placeholder.lua", "spare > holder.lease", "true"}, {"parts/placeholder.lua", "since + spare", "ms + spare"}},
		scenario: all(once, budget{faults: 1, flush: 1}),
		breaks:   []int{4},
	}, {
		name:     "a heartbeat does not put the deadline off",
		changes:  []change{{"parts/ask.lua", "if one.deadline and at > 0 then\n    lives(ticket)", "if one.deadline and at > 0 then"}},
		scenario: all(once, budget{ticks: 3}),
		breaks:   []int{2, 4},
	}, {
		name:     "a retired ticket may enter",
		changes:  []change{{"parts/ask.lua", "if one.retired then", "if false then"}},
		scenario: all(fickle, budget{faults: 1, late: 1}),
		breaks:   []int{8},
	}, {
		name:     "force ends whatever ownership there is",
		changes:  []change{{"force.lua", "if #fields == 0 or present ~= forced then return {0, 0, {}} end", ""}},
		scenario: all(once, budget{faults: 1, late: 1, force: 1}),
		breaks:   []int{6, 8},
	}, {
		name:     "a release that is repeated does not hear of a force",
		changes:  []change{{"leave.lua", "was = 'forced'", "was = 'neither'"}},
		scenario: all(once, budget{lose: 1, delay: 1}.with(1, 1).forced(1)),
		breaks:   []int{6},
	}, {
		name:     "a late request of a forced ticket is executed",
		changes:  []change{{"force.lua", "mark('!' .. ticket, MARK_TTL)", ""}},
		scenario: all(once, budget{late: 1}.with(0, 1).forced(1)),
		breaks:   []int{6, 8},
	}, {
		name:     "a forced or released hold can be asserted again",
		changes:  []change{{"reassert.lua", "if retired or not (lost or", "if not (present < token or"}},
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
		name: "a holder is told that it lost the lock, and it has not",
		changes: []change{
			{"renew.lua", "reply[k] = deadline - ms", "reply[k] = 0"},
			{"reassert.lua", "if missing then\n  local kept", "if not missing then return 0 end\nif missing then\n  local kept"},
		},
		scenario: all(once, budget{}.with(1, 0)),
		breaks:   []int{6},
	}, {
		name:     "who asserts a hold goes on waiting",
		changes:  []change{{"reassert.lua", "if redis.call('ZREM', waiters, ticket) == 1 then", "if false then"}},
		scenario: all(once, budget{lose: 1, flush: 1}.with(1, 2)),
		breaks:   []int{2, 7, 8},
	}, {
		name: "the line has no end of its own",
		changes: []change{
			{"enter.lua", "redis.call('PEXPIREAT', queue, num(ms + LINE_TTL))\n  if not try", "if not try"},
			{"parts/usual_enter.lua", "redis.call('PEXPIREAT', queue, string.format('%d', ms + LINE_TTL))\n", ""},
		},
		scenario: all(once, budget{}),
		breaks:   []int{5},
	}, {
		name:     "a release shortens what others of its owner hold",
		changes:  []change{{"parts/rest.lua", "if latest > 0 then", "if false then"}},
		scenario: all(once, budget{}).owned(1<<0 | 1<<2),
		breaks:   []int{6},
	}, {
		name:     "the client believes receipt and claim",
		changes:  []change{{"message.go", "s := w.Last\n", "s := w.Last\n\treturn received.Add(m.Claim), true\n"}},
		scenario: all(once, budget{ticks: 2}),
		breaks:   []int{1},
	}, {
		name: "the client believes a grant that is older than a waiting answer",
		changes: []change{
			{"message.go", "w.Phase == Waiting && m.Token > w.Shown", "w.Phase == Waiting"},
			{"message.go", "s.Session != session || since < 0 ||", "s.Session != session ||"},
		},
		scenario: all(once, budget{force: 1}),
		breaks:   []int{1},
	}, {
		name: "the client believes an answer that a later one overtook",
		changes: []change{
			{"waiter.go", "t.Grant.Token <= w.Forced", "false"},
			{"waiter.go", "t.Grant.Token <= w.Shown && s.At < w.Last.At", "false"},
		},
		scenario: mixed(once, once, absentee, budget{lose: 1, delay: 1}.with(0, 2).forced(1)),
		breaks:   []int{1},
	}, {
		name:     "the client counts an answer's time from its receipt",
		changes:  []change{{"waiter.go", "sent.Add(g.Remaining)", "now.Add(g.Remaining)"}},
		scenario: all(once, budget{ticks: 2, faults: 1, delay: 1}),
		breaks:   []int{1},
	}, {
		name:     "the client takes a renewal for granted",
		changes:  []change{{"hold.go", "h.SyncAt = time.Time{}\n\th.again(now, span)", "h.SyncAt = time.Time{}\n\th.TrustEnds = now.Add(h.Asked - Margin(h.Asked))\n\th.again(now, span)"}},
		scenario: all(once, budget{ticks: 2, faults: 1, late: 1}),
		breaks:   []int{1},
	}, {
		name:     "the client trusts the lock until its release is answered",
		changes:  []change{{"hold.go", "func (h *Hold) Release() { h.State = Releasing }", "func (h *Hold) Release() {}"}},
		scenario: all(once, budget{faults: 1, lose: 1}),
		breaks:   []int{1},
	}, {
		name:     "the client never retires a ticket",
		changes:  []change{{"waiter.go", "Place: w.Place, Retire: open", "Place: w.Place"}},
		scenario: all(fickle, budget{faults: 1, late: 1}),
		breaks:   []int{8},
	}, {
		name:     "the client never retires a ticket that held",
		changes:  []change{{"hold.go", "Token: token, Retire: open", "Token: token"}},
		scenario: all(once, budget{faults: 1, late: 1}),
		breaks:   []int{7, 8},
	}, {
		name:     "the client does not tell what it has seen",
		changes:  []change{{"memory.go", "case k.Token > other.Token:\n\t\treturn k\n", "default:\n\t\treturn Known{}\n"}},
		scenario: all(once, budget{faults: 1, flush: 1}),
		breaks:   []int{1},
	}, {
		name:     "the client reports every release as clean",
		changes:  []change{{"hold.go", "return h.over(Missing, Vanished)", "return h.over(Clean, 0)"}},
		scenario: all(once, budget{force: 1}),
		breaks:   []int{6},
	}, {
		name:     "the client goes on when it hears that it was forced",
		changes:  []change{{"hold.go", "\th.State = Lost\n", "\tif why != Expired {\n\t\treturn false\n\t}\n\th.State = Lost\n"}},
		scenario: all(once, budget{force: 1}),
		breaks:   []int{1},
	}, {
		name: "the client goes from gone back to held",
		changes: []change{
			{"message.go", "case w.Phase == Gone:", "case w.Phase == Gone && false:"},
			{"message.go", "case w.Phase == Waiting && m.Token > w.Shown:", "case m.Token > w.Shown:"},
			{"message.go", "return w.Began.Add(m.Claim), true", "return received.Add(m.Claim), true"},
		},
		scenario: all(fickle, budget{}),
		breaks:   []int{1},
	}, {
		name:     "the client leaves a forced hold only if a request of it is open",
		changes:  []change{{"hold.go", "return open || why != Expired", "return open"}},
		scenario: all(once, budget{delay: 1}.with(0, 1).forced(1)),
		breaks:   []int{7},
	}, {
		name:     "the client does not leave a hold whose time is over and of which a request is open",
		changes:  []change{{"hold.go", "return open || why != Expired", "return why != Expired"}},
		scenario: all(once, budget{lose: 1}.with(1, 1)),
		breaks:   []int{7},
	}, {
		name:     "the client forgets a try that was granted too late",
		changes:  []change{{"waiter.go", "case lua.Granted:\n\t\tw.OnServer = true\n", "case lua.Granted:\n"}},
		scenario: mixed(hasty, hasty, once, budget{delay: 1}.with(1, 1)),
		breaks:   []int{7},
	}, {
		name:     "the client ignores an answer to a ticket that has left",
		changes:  []change{{"waiter.go", "case w.Phase == Gone && (t.Status", "case false && (t.Status"}},
		scenario: mixed(fickle, fickle, absentee, budget{delay: 1, flush: 1}.with(0, 2)),
		breaks:   []int{7},
	}, {
		name:     "the client has a Lease after Close",
		changes:  []change{{"hold.go", "return h.State == Held && !closed", "return h.State == Held"}},
		scenario: mixed(slow, slow, absentee, budget{}.with(1, 0).closing()),
		breaks:   []int{1},
	}, {
		name:     "the client keeps a hold whose caller is gone before it had a Lease",
		changes:  []change{{"waiter.go", "return Step{Do: GiveBack}", "return Step{}"}},
		scenario: mixed(slow, slow, absentee, budget{}),
		breaks:   []int{7},
	}, {
		name:     "the client does not notice that who waits is gone",
		changes:  []change{{"waiter.go", "return w.end(GaveUp, open)", "return Step{}"}},
		scenario: mixed(slow, slow, absentee, budget{}),
		breaks:   []int{7},
	}, {
		name:     "the client gives up and does not leave the line",
		changes:  []change{{"waiter.go", "return w.end(GaveUp, open)", "w.Phase = Gone\n\t\treturn Step{Do: End}"}},
		scenario: mixed(once, once, absentee, budget{}.closing()),
		breaks:   []int{7},
	}, {
		name:     "the client gives its leave up while the lease goes on",
		changes:  []change{{"retry.go", "return max(lease, lua.Liveness) + Late", "return Late"}},
		scenario: mixed(fickle, fickle, absentee, budget{lose: 1, swallowed: 1, tired: 1}.with(2, 2)),
		breaks:   []int{7},
	}, {
		name:     "the client asks again with its next heartbeat only",
		changes:  []change{{"line.go", "return max(claim*5/6, askEvery)", "return enterEvery"}},
		scenario: all(once, budget{stop: 1}.with(0, 1)),
		breaks:   []int{4},
	}, {
		name:     "the client believes a grant of another lock",
		changes:  []change{{"message.go", "return namedRecord == record && named == ticket", "return true"}},
		scenario: all(once, budget{forged: 1}.with(0, 1)),
		breaks:   []int{1},
	},
}

func TestEveryMutationIsFound(t *testing.T) {
	if race.Enabled {
		t.Skip("there is nothing to race")
	}
	built := 0
	for _, m := range mutations {
		ofRules := strings.HasSuffix(m.changes[0].file, ".go")
		if ofRules {
			if built++; built%8 != 1 && !whole() {
				overlay.Fits(t, clientRules, m.edits())
				continue // each is a program of its own; building it takes seconds
			}
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if ofRules {
				m.foundInRules(t)
				return
			}
			m.found(t, start(t, m.changes...))
		})
	}
}

// found fails unless the search finds what the mutation breaks.
func (m *mutation) found(t *testing.T, sv *server) {
	t.Helper()
	r := search(sv, m.scenario)
	if r.fault == nil {
		t.Fatalf("not found in %d states", r.states)
	}
	t.Logf("%d moves, %d states, %v\n%s", r.depth, r.states, r.took.Round(1e6), strings.Join(r.history, "\n"))
	if !slices.Contains(m.breaks, r.fault.invariant) {
		t.Errorf("found %v, want one of %v", r.fault, m.breaks)
	}
}

// mutant is the environment variable that names the mutation of the rules in this test program.
const mutant = "EXPLORE_MUTANT"

// whole reports whether all is searched, as make prove does, and not what takes a minute.
func whole() bool { return os.Getenv("PROVE") == "all" }

// clientRules is where the rules of the client are.
const clientRules = "../../internal/rules"

func (m *mutation) edits() []overlay.Edit {
	edits := make([]overlay.Edit, 0, len(m.changes))
	for _, c := range m.changes {
		edits = append(edits, overlay.Edit{File: c.file, Make: c.make})
	}
	return edits
}

// foundInRules builds this test program with changed rules of the client, and has it search.
func (m *mutation) foundInRules(t *testing.T) {
	t.Helper()
	overlay.Run(t, clientRules, mutant+"="+m.name, m.edits())
}

// TestTheMutantIsFound is for the programs that TestEveryMutationIsFound builds.
func TestTheMutantIsFound(t *testing.T) {
	name := os.Getenv(mutant)
	if name == "" {
		t.Skip("this program has the rules as they are")
	}
	i := slices.IndexFunc(mutations, func(m mutation) bool { return m.name == name })
	mutations[i].found(t, start(t))
}

// start returns a server with the changed scripts.
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
