package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

var trialsOfExitCodes = []trial{
	{"the command exits with 7", "7", "0; 2 with -child-exit-code", "7", func(s *fixture) string {
		return s.ends(s.sh(nil, "exit 7"))
	}},
	{"the command is killed (SIGKILL)", "137", "0; 2 with -child-exit-code", "137", func(s *fixture) string {
		return s.ends(s.sh(nil, "kill -KILL $$"))
	}},
	{"the command is not found", "69", "0: its shell's 127 is lost", "127", func(s *fixture) string {
		return s.ends(s.run(nil, "no-such-program"))
	}},
	{"the command is not executable", "69", "0: its shell's 126 is lost", "126", func(s *fixture) string {
		plain := filepath.Join(s.dir, "plain")
		must(s.T, os.WriteFile(plain, []byte("text"), 0o600))
		return s.ends(s.run(nil, plain))
	}},
	{"the command is a script without #!, which exits with 7", "7", "0; 2 with -child-exit-code", "7", func(s *fixture) string {
		script := filepath.Join(s.dir, "script")
		must(s.T, os.WriteFile(script, []byte(`test "$2" = "two  words" && exit "$1"`), 0o700)) //nolint:gosec // it must be executable
		return s.ends(s.run(nil, script, "7", "two  words"))
	}},
	{"no command is given", "64", "1", "64", func(s *fixture) string {
		return s.ends(s.run(nil))
	}},
	{"the lock is taken; do not wait", "1", "has no such flag", "75", func(s *fixture) string {
		s.taken()
		return s.ends(s.sh(runFlags{"--wait=0"}, "echo never"))
	}},
	{"the lock is taken; wait five seconds", "1", "1", "75", func(s *fixture) string {
		s.taken()
		return s.ends(s.sh(runFlags{"--wait=5s"}, "echo never"))
	}},
	{"the lock is taken; an exit code of one's own for that, 9", "9", "has no such flag", "9", func(s *fixture) string {
		s.taken()
		return s.ends(s.sh(runFlags{"--wait=5s", "--conflict-exit-code=9"}, "echo never"))
	}},
	{"one waits, and no more than one may", "-", "-", "75", func(s *fixture) string {
		s.taken()
		s.waits(s.sh(nil, "echo never"))
		p := s.sh(runFlags{"--max-waiters=1"}, "echo never")
		code := s.ends(p)
		p.complains("the line is full", "1 waiting")
		return code
	}},
	{"it is taken out of the line", "-", "-", "75", func(s *fixture) string {
		s.taken()
		p := s.sh(nil, "echo never")
		s.waits(p)
		must(s.T, s.locker.Evict(s.Context(), s.name, inspect(s.T, s.locker, s.name).Waiters[0].ID))
		return s.ends(p)
	}},
	{"the server is not there", "-", "1", "69", func(s *fixture) string {
		return s.ends(s.sh(runFlags{"--redis=redis://127.0.0.1:1"}, "echo never"))
	}},
	{"a name with spaces, quotes and braces", "a lock of its own", "a lock of its own", "a lock of its own", func(s *fixture) string {
		s.name = `two  words {a} "b" '$c' *ü`
		s.taken()
		if s.ended(s.run(runFlags{"--wait=0"}, "true")) == 0 {
			return "no lock"
		}
		s.name = `two  words {a} "b" '$c' *`
		if s.ended(s.run(runFlags{"--wait=0"}, "true")) != 0 {
			return "the lock of another name"
		}
		return "a lock of its own"
	}},
	{"arguments with spaces and quotes, empty ones, a --", "arrive as they are", "are joined into a line for a shell; -shell=false", "arrive as they are", func(s *fixture) string {
		args := []string{"two  words", "", `"'$x`, "--", "--wait=0", "*"}
		p := s.sh(nil, `printf '<%s>' "$@"; echo`, args...)
		p.says("<" + strings.Join(args, "><") + ">")
		return "arrive as they are"
	}},
	{"what the command learns of its lock", "nothing", "CONSUL_LOCK_HELD=true", "its name and a fencing token that grows", func(s *fixture) string {
		var names []string
		var tokens []int64
		for range 2 {
			p := s.sh(nil, `echo "$FAIRLOCK_NAME"; echo "$FAIRLOCK_TOKEN"`)
			names = append(names, p.line())
			token, _ := strconv.ParseInt(p.line(), 10, 64)
			tokens = append(tokens, token)
			s.ended(p)
		}
		switch {
		case names[0] == "" && tokens[0] == 0:
			return "nothing"
		case names[0] == s.name && 0 < tokens[0] && tokens[0] < tokens[1]:
			return "its name and a fencing token that grows"
		}
		return fmt.Sprint(names, tokens)
	}},
}
