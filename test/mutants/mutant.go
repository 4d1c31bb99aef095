package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	return fmt.Sprintf("%s:%d: %s", filepath.Base(m.file), m.line, m.what)
}

func (m mutant) suffix() string { return filepath.Ext(m.file) }

// These are the layers of tests that may find a mutant.
const (
	stillborn  = "does not compile"
	byUnits    = "found by unit tests"
	byLockers  = "found by the Lockers' tests"
	byExplorer = "found by the explorer"
	survives   = "survives"
)

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

// atMost is how long a test may run, because a mutant may run for ever.
const atMost = 20 * time.Minute

// foundBy has the layers look for the mutant, the fast ones first. It returns the layer that found
// it.
func (m mutant) foundBy() string {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		panic(err) // only a failing disk ends here
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay := m.write(dir)
	test := func(env []string, args ...string) (passes, builds bool) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*atMost)
		defer cancel()
		args = append([]string{"test", "-count=1", "-vet=off", "-failfast", "-timeout", atMost.String()}, args...)
		run := exec.CommandContext(ctx, "go", args...)
		run.Env = append(append(os.Environ(), "REDIS_SERVER=no-redis-server"), env...)
		out, err := run.CombinedOutput()
		return err == nil, !strings.Contains(string(out), "[build failed]")
	}
	units, explorer := []string{"./internal/rules"}, []string{"-run", "^TestEveryHistoryKeepsTheInvariants$", "./test/explore"}
	var changed []string
	if m.suffix() == ".lua" {
		units, changed = []string{"./lua"}, []string{"EXPLORE_CHANGED=" + strings.TrimPrefix(m.file, "lua/") + "=" + filepath.Join(dir, "changed")}
	}
	switch passes, builds := test(nil, append([]string{"-overlay", overlay}, units...)...); {
	case !builds:
		return stillborn
	case !passes:
		return byUnits
	}
	if passes, _ := test(nil, "-overlay", overlay, "./reentrant", "./fairlock"); !passes {
		return byLockers
	}
	if m.suffix() == ".go" {
		explorer = append([]string{"-overlay", overlay}, explorer...)
	}
	if passes, _ := test(changed, explorer...); !passes {
		return byExplorer
	}
	return survives
}

// write puts the changed file into dir. Beside the file it puts the list for the go command's
// -overlay.
func (m mutant) write(dir string) (overlay string) {
	changed, overlay := filepath.Join(dir, "changed"), filepath.Join(dir, "overlay")
	file, err := filepath.Abs(m.file)
	if err == nil {
		err = os.WriteFile(changed, []byte(m.text), 0o600)
	}
	var raw []byte
	if err == nil {
		raw, err = json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	}
	if err == nil {
		err = os.WriteFile(overlay, raw, 0o600)
	}
	if err != nil {
		panic(err) // only a failing disk ends here
	}
	return overlay
}
