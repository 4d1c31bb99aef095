package main

import (
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
)

// FuzzCommandLine parses command lines and runs nothing. Each argument ends with a newline.
func FuzzCommandLine(f *testing.F) {
	for _, line := range []string{
		"", "--help", "run", "run nightly -- true", "run --wait 0 --lease 30s --kill-after=1s nightly -- sh -c exit", "run nightly true",
		"run --redis redis://:secret@h:1/2 n -- true", "run --wait forever --wait -1s n -- true", "run --kill-after -1s n -- true", "run n --",
		"run -- n -- true", "demo --workers 4 --plain --no-color", "demo --workers 99999999999999999999", "demo-worker 1",
		"ls --sort held order:*", "show --all n", "force --token 1 n", "evict n 1", "doctor --json", "completion bash", "complete fish -- show", "run --lease 9999999h n -- true",
	} {
		f.Add(strings.ReplaceAll(line, " ", "\n"))
	}
	f.Fuzz(func(t *testing.T, line string) {
		v := &cli{}
		call, err := parser(v, kong.Exit(func(int) {}), kong.Writers(io.Discard, io.Discard)).Parse(strings.Split(line, "\n"))
		if err != nil || !strings.HasPrefix(call.Command(), "run") {
			return
		}
		if v.Run.Wait < -1 {
			t.Fatalf("%q waits %d", line, v.Run.Wait)
		}
		switch p, err := v.Run.Program(); exit.Code(err) {
		case 0:
			if p.KillAfter < 0 || v.Run.Command[0] != "--" || v.Run.Note == nil && len(p.Note) > 256 {
				t.Fatalf("%q is %+v", line, v.Run)
			}
		case exit.Usage, exit.NotFound, exit.CannotRun:
		default:
			t.Fatalf("%q: exit code %d: %v", line, exit.Code(err), err)
		}
	})
}
