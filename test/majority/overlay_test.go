package majority

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fairlock/locks/test/overlay"
	"github.com/fairlock/locks/test/race"
)

// mutant is the environment variable that names the mutation of the rules in this test program.
const mutant = "MAJORITY_MUTANT"

// votes is where the rules are.
const votes = "../../internal/ballot"

func (m *broken) edits() []overlay.Edit {
	edits := make([]overlay.Edit, 0, len(m.rules))
	for _, c := range m.rules {
		edits = append(edits, overlay.Edit{File: c.file, Make: c.made})
	}
	return edits
}

// foundInRules builds this test program with changed rules, and has it search.
func (m *broken) foundInRules(t *testing.T) {
	t.Helper()
	overlay.Run(t, votes, mutant+"="+m.name, m.edits())
}

// TestTheMutantIsFound is for the programs that TestEveryMutationOfTheRulesIsFound builds.
func TestTheMutantIsFound(t *testing.T) {
	name := os.Getenv(mutant)
	if name == "" {
		t.Skip("this program has the rules as they are")
	}
	i := slices.IndexFunc(ofRules, func(m broken) bool { return m.name == name })
	ofRules[i].found(t)
}

func TestEveryMutationOfTheRulesIsFound(t *testing.T) {
	if race.Enabled || testing.Short() {
		t.Skip("each of them is a program to build")
	}
	for i, m := range ofRules {
		if i%8 != 3 && !whole() { // those that are found soonest
			overlay.Fits(t, votes, m.edits())
			continue
		}
		t.Run(strings.ReplaceAll(m.name, " ", "_"), m.foundInRules)
	}
}
