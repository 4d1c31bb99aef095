package majority

import (
	"slices"
	"strings"
	"testing"

	"github.com/fairlock/locks/test/race"
)

// broken is a mutation, the scenario in which the search must find it, and what goes wrong there.
type broken struct {
	name     string
	mutation mutation
	scripts  []change // the same mutation of the scripts
	rules    []change // or it is one of the rules in internal/ballot
	scenario scenario
	breaks   string // the beginnings of what the search may say
}

// trusting has a node say for how long it grants nothing as its record has it, if that holds.
func trusting(holds string) string {
	return "local left = (tonumber(kept[2]) or 0) - ms\n if " + holds + " and left <= rest then return math.max(0, left) end"
}

var mutations = []broken{
	{
		name: "a node that lost its data grants at once", mutation: noQuarantine,
		scripts: []change{
			{"parts/advance.lua", "      wait = quarantined()\n      if wait > 0 then return wait end\n", ""},
			{"renew.lua", "if not holder[1] then quarantined() end", ""},
		},
		scenario: scenario{programs: two, allows: budget{restarts: 1, faults: 1}}, breaks: "exclusion",
	},
	{
		name: "a node's record of itself says no run id", mutation: markerOnly,
		scripts: []change{
			{"parts/advance.lua", "if kept[3] and not anew then return quarantine end", trusting("kept[1]")},
			{"parts/usual_enter.lua", "if kept[1] == run and kept[3]", "if kept[1] and kept[3]"},
		},
		scenario: scenario{programs: two, allows: budget{yesterdays: 1, faults: 1}}, breaks: "exclusion",
	},
	{
		name: "a node without a record of itself grants at once", mutation: runOnly,
		scripts: []change{
			{"parts/advance.lua", "if kept[3] and not anew then return quarantine end", trusting("(not kept[1] or kept[1] == run)")},
			{"parts/usual_enter.lua", "if kept[1] == run and kept[3] == set and kept[4] == most and", "if (not kept[1] or kept[1] == run) and"},
		},
		scenario: scenario{programs: two, allows: budget{flushes: 1, faults: 1}}, breaks: "exclusion",
	},
	{
		name: "nobody yields", mutation: nobodyYields,
		scripts: []change{
			{"parts/advance.lua", "if not holder[1] or holder[3] then return end", "do return end"},
			{"enter.lua", "place, older and 1 or 0}", "place, 0}"},
			{"beat.lua", "rank and rank > 0 and 1 or 0", "0"},
		},
		scenario: scenario{programs: two, allows: budget{deaths: 1, faults: 1}}, breaks: "stuck",
	},
	{
		name: "a holder's final place is not compared with the line", mutation: holdersAreNotAsked,
		scripts:  []change{{"enter.lua", "place, older and 1 or 0}", "place, 0}"}},
		scenario: scenario{programs: two, allows: budget{deaths: 1, faults: 1}}, breaks: "stuck",
	},
	{
		name: "a retired call's late requests are executed", mutation: lateEnters,
		scripts: []change{
			{"enter.lua", "if redis.call('EXISTS', KEYS[6]) == 1 then return {'gone'} end", ""},
			{"enter.lua", "if place > 0 then redis.call('DEL', KEYS[6]) end", ""},
		},
		scenario: scenario{programs: two, allows: budget{giveUps: 1}}, breaks: "left behind|stuck",
	},
	{
		name: "leaves do not retire", mutation: leavesDoNotRetire,
		scripts:  []change{{"leave.lua", "if late ~= '0' then", "if false then"}},
		scenario: scenario{programs: two, allows: budget{giveUps: 1}}, breaks: "left behind|stuck",
	},
	{
		name: "a retired call's late renewals are executed", mutation: lateRenewals,
		scripts:  []change{{"renew.lua", "if gone then", "if false then"}},
		scenario: scenario{programs: two, allows: budget{renewals: 1}}, breaks: "left behind|stuck",
	},
	{
		name: "a leave does not tell the token", mutation: leavesDoNotTell,
		scripts:  []change{{"leave.lua", "if token > last", "if force and token > last"}},
		scenario: scenario{programs: two, clocks: near}, breaks: "tokens",
	},
	{
		name: "a leave does not say that the node forgot the hold", mutation: forgetsInSilence,
		scripts:  []change{{"leave.lua", "if quarantine > 0 then", "if false then"}},
		scenario: scenario{programs: two, allows: budget{flushes: 1, faults: 1}}, breaks: "unlock",
	},
	{
		name: "a force does not raise the token", mutation: forceKeepsTokens,
		scripts:  []change{{"leave.lua", "if force then token =", "if false then token ="}},
		scenario: scenario{programs: two, clocks: near, allows: budget{forces: 1, faults: 1}}, breaks: "tokens",
	},
	{
		name: "a force raises the token by more than the longest lease", mutation: forceRaisesFar,
		scripts: []change{{"leave.lua", "us + math.min(CLAIM, tonumber(most)) * 1000)", "us + 3 * CLAIM * 1000)"}},
		scenario: scenario{
			programs: three, inTurn: true,
			allows: budget{ticks: 3, forces: 1, floods: 1, faults: 2},
		},
		breaks: "tokens",
	},
	{
		name: "a vote ends while it is trusted", mutation: votesEndEarly,
		scripts: []change{
			{"parts/ends.lua", "string.format('%.0f', claim)", "string.format('%.0f', claim / 3)"},
		},
		scenario: scenario{programs: two, allows: budget{ticks: 1}}, breaks: "exclusion",
	},
	{
		name: "a newcomer's place is the node's clock", mutation: tailDoesNotCount,
		scripts:  []change{{"enter.lua", "math.max(us, tail + 1)", "us"}},
		scenario: scenario{programs: three}, breaks: "order",
	},
	{
		name: "a client that nobody hears yet is passed over", mutation: blindAreDropped,
		scripts:  []change{{"parts/stay.lua", "if not hears(me) then", "if false then"}},
		scenario: scenario{programs: three, deaf: true}, breaks: "order",
	},
	{
		name: "an eviction takes a vote", mutation: evictionsTake,
		scripts:  []change{{"leave.lua", "if by == '2' and holder[1] == ticket then", "if false then"}},
		scenario: scenario{programs: two, allows: budget{lag: -1, evictions: 1, faults: 1}}, breaks: "exclusion|lost",
	},
	{
		name: "who has a vote is not told of its eviction", mutation: votersAreNotTold,
		scripts: []change{{
			"leave.lua", "  redis.pcall('PUBLISH', channels .. string.match(ticket, '^[^:]+'), 'evicted ' .. ticket .. ' ' .. record)\n", "",
		}},
		scenario: scenario{programs: two, allows: budget{evictions: 1, faults: 1}}, breaks: "evict",
	},
	{
		name: "an eviction leaves no mark", mutation: evictionsLeaveNoMark,
		scripts:  []change{{"leave.lua", "redis.call('SET', KEYS[6], 'evicted', 'PX', late, 'NX')", "redis.call('EXISTS', KEYS[6])"}},
		scenario: scenario{programs: two, allows: budget{lag: -1, evictions: 1, faults: 1}}, breaks: "evict",
	},
	{
		name: "an eviction binds a call that is decided", mutation: evictionsBind,
		scripts:  []change{{"renew.lua", "if gone == 'evicted' and decided == '1' or not gone", "if not gone"}},
		scenario: scenario{programs: two, allows: budget{evictions: 1, renewals: 1, faults: 1}}, breaks: "renewal",
	},
	{
		name: "an eviction revives a call that has left", mutation: evictionsRevive,
		scripts:  []change{{"leave.lua", "'PX', late, 'NX')", "'PX', late)"}},
		scenario: scenario{programs: two, allows: budget{evictions: 1, renewals: 1, faults: 1}}, breaks: "left behind|stuck",
	},
	{
		name: "a call heeds its eviction at the node that told it alone", mutation: evictedHereOnly,
		scenario: scenario{programs: two, allows: budget{evictions: 1, faults: 1}}, breaks: "evict",
	},
	{name: "places are never made the same", mutation: placesDiffer, scenario: scenario{programs: two, allows: budget{deaths: 1, faults: 1}}, breaks: "stuck"},
	{name: "a vote is not given back", mutation: nothingGivenBack, scenario: scenario{programs: two, allows: budget{deaths: 1, faults: 1}}, breaks: "stuck|livelock"},
	{name: "a yield is a leave and then an enter", mutation: yieldInTwo, scenario: scenario{programs: three}, breaks: "order"},
	{
		name: "nobody asks a node that answers again", mutation: silenceIsForEver,
		scenario: scenario{programs: two, hung: 0b11}, breaks: "stuck",
	},
	{
		name: "a late answer revives a vote that was given back", mutation: tellsRevive,
		scenario: scenario{programs: two, clocks: apart, allows: budget{slow: 1}}, breaks: "exclusion|unlock",
	},
	{
		name: "a call that waits does not hear that it was forced", mutation: forcesUnheard,
		scenario: scenario{programs: two, allows: budget{slow: 2, forces: 1, faults: 1}}, breaks: "exclusion|tokens",
	},
	{name: "who begins to listen does not ask", mutation: upAsksNothing, scenario: scenario{programs: two, allows: budget{deaths: 1, faults: 1}, deaf: true}, breaks: "stuck"},
	{
		name: "a node that is away is told a token", mutation: tellsTheDead,
		scenario: scenario{programs: two, clocks: apart, allows: budget{slow: -1, deaths: 1, faults: 1}}, breaks: "livelock",
	},
	{
		name: "a call that gives up retires nothing", mutation: retiresNothing,
		scenario: scenario{programs: two, allows: budget{giveUps: 1}}, breaks: "left behind|stuck",
	},
}

// ofRules are mutations of internal/ballot.
var ofRules = []broken{
	{
		name: "a majority is one node less", rules: []change{{"ballot.go", "need: n/2 + 1,", "need: n / 2,"}},
		scenario: scenario{programs: two}, breaks: "exclusion|tokens",
	}, {
		name: "the least token of the votes is the Lease's", rules: []change{
			{"judge.go", "			token = max(token, g.token)\n", "			if token == 0 || g.token < token {\n				token = g.token\n			}\n"},
		},
		scenario: scenario{programs: two, clocks: near}, breaks: "tokens",
	}, {
		name: "no token is told before a call is decided", rules: []change{
			{"judge.go", "g.known < token && token > int64(g.since)+(g.Claim()-tick).Microseconds()", "false"},
		},
		scenario: scenario{programs: two, clocks: apart, allows: budget{ticks: 3, kills: 1, faults: 1}}, breaks: "tokens",
	}, {
		name: "a call stands at the least of the places", rules: []change{
			{"ballot.go", "			b.Place = max(b.Place, b.legs[i].at)\n", "			if at := b.legs[i].at; at > 0 && (b.Place == 0 || at < b.Place) {\n				b.Place = at\n			}\n"},
		},
		scenario: scenario{programs: three, clocks: near}, breaks: "order",
	}, {
		name: "a late answer brings back what was ended by force", rules: []change{{"hold.go", "b.legs[i].ended = rules.Waiting, true", "b.legs[i].ended = rules.Waiting, false"}},
		scenario: scenario{programs: two, allows: budget{slow: 2, forces: 1, faults: 1}}, breaks: "exclusion|tokens|unlock",
	}, {
		name: "a vote that is too short to be of use is kept", rules: []change{{"ballot.go", "g.forgoes(a.Token, a.Since)\n\t\tg.lapsed = true", "g.lapsed = true"}},
		scenario: scenario{programs: two, allows: budget{slow: -1, lag: -1, ticks: 2}}, breaks: "livelock",
	}, {
		name: "a vote that lapsed is asked for though no majority is there", rules: []change{
			{"ballot.go", "b.legs[i].lapsed && there < b.need", "false"},
		},
		scenario: scenario{programs: two, cuts: [most]uint8{0b110}, dead: 0b100, allows: budget{ticks: 1}}, breaks: "stuck",
	}, {
		name: "a hold is lost unless all votes are trusted", rules: []change{{"hold.go", "if len(ends) < b.need {", "if len(ends) < len(b.legs) {"}},
		scenario: scenario{programs: two, dead: 0b1, allows: budget{renewals: 1}}, breaks: "lost",
	},
}

func TestEveryMutationIsFound(t *testing.T) {
	if race.Enabled || testing.Short() {
		t.Skip("there is nothing to race")
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			m.found(t)
		})
	}
}

// How many states are searched near the beginning, how many histories farther away, and how many
// states in depth.
const (
	nearby = 30_000
	far    = 10_000
	deep   = 300_000
)

// search finds what is near by the shortest history, and what is far by one at random.
func (m *broken) search() *result {
	r := search(&m.scenario)
	if r.fault == nil {
		r = wander(&m.scenario, far)
	}
	if r.fault == nil {
		m.scenario.most = deep
		r = prove(&m.scenario)
	}
	if r.fault == nil {
		r = wander(&m.scenario, 10*far)
	}
	return r
}

// found fails unless the search finds what the mutation breaks.
func (m *broken) found(t *testing.T) {
	t.Helper()
	m.scenario.broken, m.scenario.most = m.mutation, nearby
	r := m.search()
	if r.fault == nil {
		t.Fatalf("%s: not found in %d transitions, %v", m.name, r.transitions, r.took)
	}
	t.Logf("%s: %d moves, %d states, %v: %v\n%s", m.name, len(r.history), r.states, r.took.Round(1e6), r.fault, strings.Join(r.history, "\n"))
	if what, _, _ := strings.Cut(r.fault.Error(), ":"); !slices.Contains(strings.Split(m.breaks, "|"), what) {
		t.Errorf("found %v, want %s", r.fault, m.breaks)
	}
}

func TestEveryMutationOfTheModelIsOneOfTheScripts(t *testing.T) {
	if race.Enabled || testing.Short() {
		t.Skip("there is nothing to race")
	}
	for _, m := range mutations {
		if len(m.scripts) == 0 {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			if err := agree(t, m.mutation, m.scripts...); err != nil {
				t.Error(err)
			}
			if err := agree(t, sound, m.scripts...); err == nil {
				t.Error("no random program shows the mutation")
			}
		})
	}
}
