package lua

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

const screen = 120 // lines

// sourceFiles returns the scripts and the files that they include, by name.
func sourceFiles(t *testing.T) map[string]string {
	t.Helper()
	text := make(map[string]string)
	must(t, fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			text[path] = textsOf(files)(path)
		}
		return err
	}))
	return text
}

// code returns the text of a file without its comments.
func code(text string) string {
	return regexp.MustCompile(`(?m)--[^#].*$`).ReplaceAllString(text, "")
}

func TestEveryScriptFitsOnAScreen(t *testing.T) {
	for name, text := range sourceFiles(t) {
		if n := strings.Count(text, "\n"); n > screen {
			t.Errorf("%s has %d lines", name, n)
		}
		for line := range strings.Lines(text) {
			if len(strings.TrimSuffix(line, "\n")) > 100 {
				t.Errorf("%s has a line of %d columns: %s", name, len(line)-1, line)
			}
		}
	}
}

func TestEveryPartIsIncludedByAScriptAndSaysWhatItIs(t *testing.T) {
	all := sourceFiles(t)
	parts := make(map[string]bool)
	for _, text := range all {
		for line := range strings.Lines(text) {
			if part, ok := included(strings.TrimSuffix(line, "\n")); ok {
				parts[part] = true
			}
		}
	}
	for path, text := range all {
		name, part := strings.CutPrefix(path, "parts/")
		if part && !parts[path] {
			t.Errorf("%s is included by none", path)
		}
		if says := "-- " + name + ": "; part && !strings.HasPrefix(text, says) {
			t.Errorf("%s does not begin with %q", path, says)
		}
	}
}

// A function costs a script as much as a command.
func TestTheUsualWaysComeBeforeTheFirstFunction(t *testing.T) {
	for script, way := range map[*script]string{&enterScript: "parts/usual_enter.lua", &leaveScript: "parts/usual_leave.lua"} {
		before, _, _ := strings.Cut(code(script.source), "function")
		if !strings.Contains(before, code(Whole(way, textsOf(files)))) {
			t.Errorf("%s does not stand before the first function", way)
		}
	}
}

func TestNoScriptHasATimeOrABoundOfItsOwn(t *testing.T) {
	number := regexp.MustCompile(`\b\d{3,}\b`)
	for name, text := range sourceFiles(t) {
		for _, n := range number.FindAllString(code(text), -1) {
			if n != "1000" && n != "1000000" { // these convert units
				t.Errorf("%s says %s, which belongs into terms.go", name, n)
			}
		}
	}
}

func TestScriptsKnowTheirTermsByNameAndUseAllOfThem(t *testing.T) {
	quoted, word := regexp.MustCompile(`'[^']*'`), regexp.MustCompile(`\b[A-Z]+(_[A-Z]+)*\b`)
	used := make(map[string]bool)
	for path, text := range sourceFiles(t) {
		for _, name := range word.FindAllString(quoted.ReplaceAllString(code(text), ""), -1) {
			if _, ok := terms[name]; !ok && name != "KEYS" && name != "ARGV" {
				t.Errorf("%s: terms.go does not have %s", path, name)
			}
			used[name] = true
		}
		for _, command := range quoted.FindAllString(code(text), -1) {
			if numbered(command) != command {
				t.Errorf("%s: the text %s would become %s", path, command, numbered(command))
			}
		}
	}
	for name := range terms {
		if !used[name] {
			t.Errorf("no script uses %s", name)
		}
	}
}
