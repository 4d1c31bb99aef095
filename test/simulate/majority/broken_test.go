package majority

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlock/locks/quorum"
	"github.com/fairlock/locks/test/race"
	"github.com/fairlock/locks/test/simulate/stage"
)

// broken is something that a test breaks, and what the referee must say of it.
type broken struct {
	invariant int
	says      string
	seed      uint64
	when      weatherOf
	is        Break
}

// weatherOf is when something broken shows.
type weatherOf int

const (
	calm    weatherOf = iota
	herd              // when many ask at one instant
	stormy            // when clients and users' code fail
	rewinds           // only when nodes forget, and on a lock that somebody has nearly always
	misled            // only when names lead to other nodes
)

// usual is the condition under which a node of a free lock grants at once.
const usual = "kept[1] == run and kept[3] == set and kept[4] == most and (tonumber(kept[2]) or ms + 1) <= ms"

// noQuarantine has a node grant at once, whatever it has forgotten.
var noQuarantine = stage.In("", "wait = quarantined()", "wait = 0",
	usual, "true")

// anybody has a node take itself for whichever node it is asked to be.
var anybody = stage.In("", "ARGV[1], ARGV[2], ARGV[3]", "ARGV[1], (string.gsub(ARGV[2], '%d+', '1', 1)), ARGV[3]",
	"string.match(set, '%d+')", "string.match(ARGV[2], '%d+')",
	"KEYS[1], ARGV[1], ARGV[2]", "KEYS[1], (string.gsub(ARGV[1], '%d+', '1', 1)), ARGV[2]",
	"kept[3] or '', tonumber(kept[4])", "kept[3] and ARGV[1] or '', tonumber(kept[4])")

var breaks = map[string]broken{
	"nodes that vote under each other's names":             {1, "trust it from", 2, misled, Break{Script: anybody}},
	"a client that trusts its lock for longer than it may": {1, "trust it from", 2, calm, Break{Trust: 20 * time.Second}},
	"a context that lives for longer than its lock":        {1, "the context of", 2, calm, Break{Context: 5 * time.Second}},
	"a vote that is given though somebody has it": {1, "trust it from", 2, calm, Break{Script: stage.In("enter",
		"local wait = redis.call('PTTL', record)", "local wait = -2")}},
	"clocks of nodes that run faster than they may":                               {1, "trust it from", 3, calm, Break{Drift: 3}},
	"nodes that have lost their data and vote at once":                            {1, "trust it from", 2, rewinds, Break{Script: noQuarantine}},
	"nodes that say the run id that they had before they restarted with old data": {1, "trust it from", 2, rewinds, Break{OneRun: true}},
	"newcomers at the head of the line": {2, "which began after", 2, calm, Break{Script: stage.In("enter",
		"place = at > 0 and at or math.max(us, tail + 1)", "place = at > 0 and at or 4000000000000000 - us")}},
	"a release that tells nobody, so that the next is dropped": {2, "dropped", 2, calm, Break{Script: stage.In("leave",
		"redis.pcall('PUBLISH', channels .. client, message)", "")}},
	"a waiter that is told that it was evicted": {2, "was evicted by nobody", 2, calm, Break{Message: evicted}},
	"tokens that stand still": {3, "but the resource has seen", 2, calm, Break{Script: stage.In("",
		"math.max(us, last + 1)", "1000")}},
	"a release that hands over to nobody": {4, "in calm weather, and wanted", 2, calm, Break{Script: stage.In("leave", "\nadvance()\n", "\n")}},
	"votes that nobody gives back": {4, "was free and wanted for", 2, herd, Break{Script: stage.In("enter",
		"if mine and its and mine < its then", "if false then", "place, older and 1 or 0}", "place, 0}")}},
	"heartbeats that compare no clocks": {4, "as it was granted in calm weather", 2, calm, Break{Script: stage.In("beat",
		"return {us,", "return {0,")}},
	"renewals that prolong nothing": {4, "though it has reached a majority", 2, calm, Break{Script: stage.In("renew",
		"tonumber(lease), tonumber(till) - ms)", "tonumber(till) - ms)")}},
	"calls that come back late": {4, "after its end", 2, calm, Break{Late: time.Second}},
	"tries that take long":      {4, "a trylock of", 2, calm, Break{Try: time.Second}},
	"a try that is turned away from a free lock": {4, "was turned away, and nobody had the lock", 2, calm, Break{Script: stage.In("enter",
		"if not holder[1] and redis.call('EXISTS', line) == 0 then", "if bound >= 0 and not holder[1] and redis.call('EXISTS', line) == 0 then",
		"if bound < 0 and holder[1] then", "if bound < 0 then")}},
	"a nested call that fails": {4, "which is trusted", 2, calm, Break{Nested: true}},
	"nodes that never vote": {4, "has waited for it with a majority in reach", 2, calm, Break{Script: stage.In("",
		"wait = quarantined()", "wait = tonumber(most)", usual, "false")}},
	"a vote that does not end": {5, "has no end", 2, calm, Break{Script: stage.In("enter",
		"redis.pcall('PEXPIRE', record, string.format('%.0f', claim))", "redis.call('PERSIST', record)")}},
	"a loss that is reported as a clean unlock":        {6, "cleanly after its trust had ended", 2, calm, Break{Unlock: clean}},
	"an ownership that is said to be lost, and is not": {6, "while it was trusted, and was told: the lock is lost", 2, calm, Break{Unlock: lost}},
	"an Unlock that fails for nothing":                 {6, "in calm weather and was told", 2, calm, Break{Unlock: notHeld}},
	"robbed holders that are told of a clean unlock":   {6, "had given their votes to others", 10, rewinds, Break{Script: noQuarantine}},
	"nodes that do not say that they forgot a hold": {6, "while it was trusted, and was told", 2, rewinds, Break{Script: stage.In("leave",
		"if quarantine > 0 then", "if false then")}},
	"a context that is asked elsewhere":   {7, "in another goroutine", 2, stormy, Break{Asks: true}},
	"a Locker that is closed and goes on": {7, "and its Locker is closed since", 2, calm, Break{Closed: time.Minute}},
	"a Locker that does not close":        {7, "is closed, and", 2, calm, Break{Leaks: true}},
	"a release that leaves its vote behind": {7, "nobody will leave", 2, calm, Break{Script: stage.In("leave",
		"redis.call('DEL', record)", "redis.call('PEXPIRE', record, 60000)")}},
}

func clean(error) error { return nil }

func lost(error) error { return quorum.ErrLost }

func notHeld(error) error { return quorum.ErrNotHeld }

// evicted has a waiter hear that it was evicted in place of a grant.
func evicted(payload string) string {
	if field := strings.Fields(payload); field[0] == "grant" {
		return "evicted " + field[4] + " " + field[5]
	}
	return payload
}

// fair is with how many seeds each break is tried: what another seed would show is not hidden for
// ever by a change of the code that moves the times.
const fair = 20

// runs is one run of what is broken.
func (c *broken) runs(t *testing.T, seed uint64) Outcome {
	t.Helper()
	plan := planOf(seed)
	plan.Length, plan.Break = 6*time.Minute, c.is
	plan.Herd, plan.Rewinds, plan.Misled, plan.Calm = c.when == herd, c.when == rewinds, c.when == misled, c.when < stormy
	if plan.Rewinds {
		plan.Names = 1
	}
	return run(t, plan)
}

func TestTheRefereeOfAQuorumSeesWhatIsBrokenOnPurpose(t *testing.T) {
	if race.Enabled {
		t.Skip("what the referee sees does not depend on the race detector")
	}
	for name, c := range breaks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all []string
			for seed := c.seed; seed < c.seed+fair; seed++ {
				o := c.runs(t, seed)
				for _, v := range o.Violations {
					if strings.Contains(v, fmt.Sprintf("invariant %d:", c.invariant)) && strings.Contains(v, c.says) {
						if o.Tail == "" || !strings.Contains(v, fmt.Sprintf("make simulate SEEDS=%d NODES=", seed)) {
							t.Errorf("it does not say how to see it again: %s", v)
						}
						return
					}
				}
				all = append(all, o.Violations...)
			}
			t.Errorf("the referee does not object to invariant %d, but: %v", c.invariant, all[:min(len(all), 2)])
		})
	}
}
