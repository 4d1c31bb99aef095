package majority

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// in replaces a text in the script of one verb.
func in(verb, was, is string) func(string, string) string {
	return func(v, source string) string {
		if v == verb || verb == "" && strings.Contains(source, was) {
			source = strings.ReplaceAll(source, was, is)
		}
		return source
	}
}

func TestTheRefereeOfAQuorumSeesWhatIsBrokenOnPurpose(t *testing.T) {
	for name, c := range map[string]struct {
		invariant int
		broken    Break
	}{
		"a client that trusts its lock for longer than it may": {1, Break{Trust: 20 * time.Second}},
		"a vote that is given though somebody has it": {1, Break{Script: in("enter",
			"local wait = redis.call('PTTL', record)", "local wait = -2")}},
		"tokens that stand still": {3, Break{Script: in("",
			"math.max(us, (tonumber(redis.call('GET', tokens) or 0) or 0) + 1)", "1000")}},
		"a release that tells nobody, so that the next is dropped": {2, Break{Script: in("leave",
			"redis.pcall('PUBLISH', channels .. client, message)", "")}},
		"a loss that is reported as a clean unlock": {6, Break{Unlock: func(error) error { return nil }}},
		"a Locker that does not close":              {7, Break{Leaks: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := planOf(2)
			plan.Length, plan.Calm, plan.Break = 6*time.Minute, true, c.broken
			want := fmt.Sprintf("invariant %d:", c.invariant)
			o := run(t, plan)
			for _, v := range o.Violations {
				if strings.Contains(v, want) && o.Tail != "" {
					return
				}
			}
			t.Errorf("the referee does not object to %s, but: %v", want, o.Violations)
		})
	}
}
