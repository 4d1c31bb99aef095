package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

// shown is a command in a page of the documentation, with its output there.
type shown struct {
	page, line, prints string
	args               []string
}

// commands returns all commands of fairlock in the pages, in their order. They are the lines of
// blocks marked sh, and in blocks marked console the lines after $, with the output that follows.
func commands(t *testing.T) (all []shown) {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*.md")
	must(t, err)
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		must(t, err)
		language := ""
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			fence, isFence := strings.CutPrefix(line, "```")
			command, isCommand := strings.CutPrefix(line, "$ ")
			switch {
			case isFence:
				language = fence
			case language == "sh" && strings.HasPrefix(line, "fairlock "), language == "console" && isCommand:
				if language == "sh" {
					command = line
				}
				words := strings.Fields(strings.ReplaceAll(command, "'", ""))
				all = append(all, shown{page: filepath.Base(page), line: command, args: words[1:]})
			case language == "console" && len(all) > 0:
				all[len(all)-1].prints += line + "\n"
			}
		}
	}
	return all
}

func TestEveryCommandLineOfTheGuidesMakesSense(t *testing.T) {
	found := commands(t)
	if len(found) == 0 {
		t.Fatal("there is none")
	}
	for _, c := range found {
		if _, err := parser(&cli{}).Parse(c.args); err != nil {
			t.Errorf("%s: %s: %v", c.page, c.line, err)
		}
	}
}

func TestNoCommandLineOfTheGuidesHasAPassword(t *testing.T) {
	for _, c := range commands(t) {
		if strings.Contains(c.line, "@") || strings.Contains(c.line, "password") {
			t.Errorf("%s: %s: others can see it", c.page, c.line)
		}
	}
}

// alike returns text without the parts that differ from run to run.
func alike(text string) string {
	return strings.TrimSpace(replaced(text, append(varying, swap{`\b(\d+(\.\d+)?(ms|s|m|h|d))+\b`, "AGE"})))
}

// The test runs the runbook of docs/operations.md on a lock that is as stuck as the one there.
func TestTheRunbookPrintsWhatItSays(t *testing.T) {
	s := redistest.Start(t)
	locker := observer(t, s)
	for name, note := range map[string]string{"nightly": "build-7:4242 backup.sh", "order:42": "web-1"} {
		take(t, locker, name, fairlock.Note(note))
	}
	for i, note := range []string{"build-8:11 backup.sh", "build-9:7 backup.sh"} {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		go func() { _, _ = locker.Lock(ctx, "nightly", fairlock.Note(note)) }()
		inLine(t, locker, "nightly", i+1)
	}
	state := inspect(t, locker, "nightly")
	for _, c := range commands(t) {
		if c.prints == "" {
			continue
		}
		for i, arg := range c.args {
			switch alike(arg) {
			case "TOKEN":
				c.args[i] = strconv.FormatInt(state.Holder.Token, 10)
			case "ID":
				c.args[i] = state.Waiters[1].ID
			}
		}
		p := launch(t, s, c.args...)
		p.ends(0)
		if got, want := alike(strings.Join(p.rest(), "\n")), alike(c.prints); got != want {
			t.Errorf("%s: %s prints\n%s\nand is said to print\n%s", c.page, c.line, got, want)
		}
	}
}

func TestTheCommandLinesForAQuorumInTheGuidesDoWhatTheySay(t *testing.T) {
	t.Parallel()
	q := newTrio(t)
	hosts := strings.NewReplacer("host1", q.addrs[0], "host2", q.addrs[1], "host3", q.addrs[2], "host4", redistest.Start(t).Addr(), "./backup.sh", "true")
	pages, err := filepath.Glob("../../docs/*.md")
	must(t, err)
	q.prints(0, "quorum", "init", "--new")
	var lines []string
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		must(t, err)
		lines = append(lines, regexp.MustCompile("fairlock [^`\n]*--redis quorum:[^`\n]*").FindAllString(string(text), -1)...)
	}
	if len(lines) < 4 {
		t.Errorf("found only %q", lines)
	}
	changes := func(line string) int { return strings.Count(line, "--anyway") } // the quorum, so they come last
	slices.SortStableFunc(lines, func(a, b string) int { return changes(a) - changes(b) })
	for _, line := range lines {
		p := fairlockWith(t, nil, strings.Fields(hosts.Replace(line))[1:]...).start()
		p.rest()
		p.ends(0)
	}
}
