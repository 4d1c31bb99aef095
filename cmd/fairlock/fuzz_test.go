package main

import (
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
)

// FuzzCommandLine reads command lines, of arguments that end with a newline, and runs nothing.
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
		v := &verbs{}
		call, err := parser(v, kong.Exit(func(int) {}), kong.Writers(io.Discard, io.Discard)).Parse(strings.Split(line, "\n"))
		if err != nil || !strings.HasPrefix(call.Command(), "run") {
			return
		}
		if v.Run.Wait < -1 {
			t.Fatalf("%q waits %d", line, v.Run.Wait)
		}
		switch _, err := v.Run.command(); exit.Code(err) {
		case 0:
			if v.Run.killAfter() < 0 || v.Run.Command[0] != "--" || v.Run.Note == nil && len(v.Run.note()) > 256 {
				t.Fatalf("%q is %+v", line, v.Run)
			}
		case exit.Usage, exit.NotFound, exit.CannotRun:
		default:
			t.Fatalf("%q: exit code %d: %v", line, exit.Code(err), err)
		}
	})
}

// FuzzRedisURL reads URLs and connects to nothing.
func FuzzRedisURL(f *testing.F) {
	for _, rest := range []string{"127.0.0.1:6379", "h", "h:0/15?protocol=3", "[::1]:1/x", "h:port", "h/%zz", "h?read_timeout=-1", "\x00", "h:1/2/3", "h?db=x"} {
		f.Add("redis", rest)
		f.Add("rediss", rest)
	}
	f.Add("unix", "/run/redis.sock?db=1")
	f.Add("redis", "h:26379/2?master_name=m&addr=h:1&username=u&password=p")
	f.Add("rediss+cluster", "h?addr=h:1")
	f.Add("redis+nothing", "h")
	f.Add("http", "h")
	f.Fuzz(func(t *testing.T, scheme, rest string) {
		const secret = "pA55-0f-n0b0dy"
		c := connection{Redis: scheme + "://me:" + secret + "@" + rest}
		_, err := c.prepare()
		if strings.Contains(c.String(), secret) {
			t.Fatalf("%s, %q: the password is told: %s", scheme, rest, &c)
		}
		if err == nil {
			return
		}
		if exit.Code(err) != exit.Usage {
			t.Fatalf("%s, %q: exit code %d", scheme, rest, exit.Code(err))
		}
		if strings.Contains(err.Error(), secret) {
			t.Fatalf("%s, %q: the password is told: %v", scheme, rest, err)
		}
	})
}
