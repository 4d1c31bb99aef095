package majority

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mutant is the environment variable that names the mutation of the rules in this test program.
const mutant = "MAJORITY_MUTANT"

// foundInRules builds this test program with changed rules, and has it search.
func (m *broken) foundInRules(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	overlay, err := overlay("../../internal/ballot", dir, m.rules)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "mutant")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("building it: %v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), program, "-test.run=^TestTheMutantIsFound$", "-test.v")
	run.Env = append(os.Environ(), mutant+"="+m.name)
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
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

// overlay writes the changed files of dir, and the list of them for the go command's -overlay.
func overlay(dir, to string, changes []change) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	var list struct{ Replace map[string]string }
	list.Replace = make(map[string]string)
	for _, c := range changes {
		raw, err := os.ReadFile(filepath.Join(dir, c.file))
		if err != nil {
			return "", err
		}
		text, err := c.made(string(raw))
		if err != nil {
			return "", err
		}
		changed := filepath.Join(to, c.file)
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", err
		}
		list.Replace[filepath.Join(dir, c.file)] = changed
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	file := filepath.Join(to, "overlay.json")
	return file, os.WriteFile(file, raw, 0o600)
}

func TestEveryMutationOfTheRulesIsFound(t *testing.T) {
	if raceDetector || testing.Short() {
		t.Skip("each of them is a program to build")
	}
	for i, m := range ofRules {
		if i%4 != 0 && !long() {
			continue
		}
		t.Run(strings.ReplaceAll(m.name, " ", "_"), m.foundInRules)
	}
}
