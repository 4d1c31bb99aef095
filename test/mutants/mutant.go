package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// mutant is the tree with one change.
type mutant struct {
	file string // path from the root
	line int
	what string // the change, in one line
	text string // of the whole file
}

func (m mutant) String() string {
	name := filepath.Base(m.file)
	if m.ofBallot() { // the rules have files of the same names
		name = filepath.Join(filepath.Base(ballot), name)
	}
	return fmt.Sprintf("%s:%d: %s", name, m.line, m.what)
}

func (m mutant) ofBallot() bool { return filepath.Dir(m.file) == ballot }

func (m mutant) suffix() string { return filepath.Ext(m.file) }

// These are the layers of tests that may find a mutant.
const (
	stillborn  = "does not compile"
	byUnits    = "unit tests"
	byServers  = "unit tests on real servers"
	byLockers  = "the Lockers' tests"
	byExplorer = "the explorer"
	survives   = "nothing"
)

var layers = []string{stillborn, byUnits, byServers, byLockers, byExplorer, survives}

// edit replaces a piece of a file's text.
type edit struct {
	from, to int
	with     string
}

// mutate makes a mutant of each edit of each file in a folder, except its tests.
func mutate(folder, suffix string, edits func(text string) ([]edit, error)) (all []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*"+suffix))
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		text := string(raw)
		changes, err := edits(text)
		if err != nil {
			return nil, err
		}
		for _, e := range changes {
			all = append(all, mutant{
				file: name, line: 1 + strings.Count(text[:e.from], "\n"), what: e.describe(text),
				text: text[:e.from] + e.with + text[e.to:],
			})
		}
	}
	return all, err
}

// describe returns the edit with a little of the text around it.
func (e edit) describe(text string) string {
	from := 1 + strings.LastIndexByte(text[:e.from], '\n')
	to := len(text)
	if end := strings.IndexByte(text[e.to:], '\n'); end >= 0 {
		to = e.to + end
	}
	flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	return fmt.Sprintf("%s  =>  %s", flat(text[from:to]), flat(text[from:e.from]+e.with+text[e.to:to]))
}

// layer is a run of tests that may find a mutant.
type layer struct {
	finds   string
	command []string
	folder  string // to run in
	env     []string
}

// A layer may not run for longer, because a mutant may run for ever. On a busy machine a search of
// the explorer takes minutes.
const atMost, unitsAtMost = "30m", "5m"

// found reports whether the layer's tests fail, and what they print.
func (l layer) found(ctx context.Context) (found bool, out string, err error) {
	run := exec.CommandContext(ctx, l.command[0], l.command[1:]...)
	run.Dir, run.Env = l.folder, append(os.Environ(), l.env...)
	if l.finds != byServers {
		run.Env = append(run.Env, "REDIS_SERVER=no-redis-server")
	}
	run.WaitDelay = time.Second // a test that was killed may leave a child with its output
	raw, err := run.CombinedOutput()
	if ctx.Err() != nil {
		return false, "", ctx.Err()
	}
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		return true, string(raw), nil
	}
	return false, string(raw), err
}

// failure matches the first test that failed, and what it says first.
var failure = regexp.MustCompile(`(?m)^--- FAIL: (\w+)(?:.*\n *--- FAIL)*.*\n? *(.*)`)

// foundBy has the layers look for the mutant, the fast ones first. It returns the layer that found
// it, and the test.
func (m mutant) foundBy(ctx context.Context, programs string) (by, test string, err error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	look := m.rules
	if m.suffix() == ".lua" {
		look = m.script
	}
	layers, err := look(dir, programs)
	if err != nil {
		return "", "", err
	}
	for _, l := range layers {
		found, out, err := l.found(ctx)
		for range 4 { // on a machine that is too busy for the tests' own timeouts, again
			if found && err == nil && strings.Contains(out, "i/o timeout") && !strings.Contains(out, "test timed out") {
				found, out, err = l.found(ctx)
			}
		}
		switch {
		case err != nil:
			return "", "", err
		case strings.Contains(out, "[build failed]"):
			return stillborn, "", nil
		case found:
			if test := failure.FindStringSubmatch(out); test != nil {
				return l.finds, test[1] + ": " + test[2], nil
			}
			return l.finds, "", nil
		}
	}
	return survives, "", nil
}

// everyHistory is the explorer's search of what is not changed by itself.
const everyHistory = "^TestEveryHistoryKeepsTheInvariants$"

// ballot has the rules of a quorum, and everyPromise is their explorer's search.
const ballot, everyPromise = "internal/ballot", "^TestEveryHistoryKeepsThePromises$"

// rules has the layers that look for a mutant of the rules. The go command builds them.
func (m mutant) rules(dir, _ string) ([]layer, error) {
	overlay, err := overlay(dir, m.file, m.text)
	test := func(finds string, args ...string) layer {
		return layer{finds: finds, command: append([]string{"go", "test", "-count=1", "-vet=off", "-failfast", "-timeout", atMost, fmt.Sprintf("-short=%t", short), "-overlay", overlay}, args...)}
	}
	if m.ofBallot() {
		return []layer{
			test(byUnits, "./internal/ballot"), test(byLockers, "./quorum"), test(byExplorer, "-run", everyPromise, "./test/majority"),
		}, err
	}
	return []layer{
		test(byUnits, "./internal/rules"), test(byLockers, "./reentrant", "./fairlock"), test(byExplorer, "-run", everyHistory, "./test/explore"),
	}, err
}

// ofText are the tests of the scripts' text, which any change may fail.
const ofText = "^Test(EveryScriptFits|EveryPartIsIncluded|NoScriptHasATime|ScriptsKnowTheirTerms)"

// slow are the unit tests that take up most of the time. They look after the others have.
const slow = "^Test(MarksOfThoseWhoCame|DamageIsHealed|FiveHundredTickets|RandomPrograms|AKeyOfAnotherType|ALineOfManyIsMended|AHoldOutlives|AnyPlaceInALongLine)"

// embedded are the unit tests of the scripts that need no server, and those on a cluster, where the
// scripts are the same.
const embedded = "/^(embedded|cluster)$|//^(embedded|cluster)$"

// script has the layers that look for a mutant of a script: programs that are built already, and
// read the scripts from dir.
func (m mutant) script(dir, programs string) ([]layer, error) {
	explorer := filepath.Join(dir, "test", "explore") // which reads the scripts from ../../lua
	err := errors.Join(copyScripts(dir), os.WriteFile(filepath.Join(dir, m.file), []byte(m.text), 0o600), os.MkdirAll(explorer, 0o700))
	env := []string{scriptsIn + "=" + filepath.Join(dir, "lua"), "GOMAXPROCS=1", "GOGC=400"} // others run beside it
	test := func(finds, program, folder, which, but string) layer {
		limit := atMost
		if finds != byExplorer {
			limit = unitsAtMost
		}
		program = filepath.Join(programs, program+".test")
		return layer{finds, []string{program, "-test.failfast", fmt.Sprintf("-test.short=%t", short), "-test.timeout", limit, "-test.skip", ofText + but, "-test.run", which}, folder, env}
	}
	all := []layer{
		test(byUnits, "lua", "lua", "", "|"+slow), test(byUnits, "lua", "lua", slow, ""), test(byServers, "lua", "lua", "", "|"+embedded),
		test(byLockers, "reentrant", "reentrant", "", ""), test(byLockers, "fairlock", "fairlock", "", ""),
		test(byExplorer, "explore", explorer, everyHistory, ""),
	}
	if units {
		all = all[:3]
	}
	return all, err
}
