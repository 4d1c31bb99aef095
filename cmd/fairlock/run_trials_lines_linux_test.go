package main

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
)

// on returns the tool's command line on a host of that name, if the test may make such a host.
// Otherwise only the processes differ.
func (s *fixture) on(host string, f runFlags, command ...string) *exec.Cmd {
	cmd := s.command(f, command...)
	own := &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWUTS}
	trial := exec.Command("hostname", host)
	if trial.SysProcAttr = own; trial.Run() != nil {
		return cmd
	}
	cmd.SysProcAttr = own
	cmd.Args = append([]string{"sh", "-c", `hostname "$0"; exec "$@"`, host, cmd.Path}, cmd.Args[1:]...)
	cmd.Path, cmd.Err = exec.LookPath("sh")
	return cmd
}

var trialsOfLines = []trial{
	{"two hosts", "(one host only)", "one after the other", "one after the other", func(s *fixture) string {
		script := "echo in; read line; exit 0"
		one := s.start(s.on("one", nil, "sh", "-c", script))
		one.says("in")
		two := s.start(s.on("two", nil, "sh", "-c", script))
		s.waits(two)
		state := inspect(s.T, s.locker, s.name)
		if holder, waiter := state.Holder.Note, state.Waiters[0].Note; strings.HasPrefix(holder, "one:") != strings.HasPrefix(waiter, "two:") {
			s.Errorf("%s and %s", holder, waiter)
		}
		if len(two.lines) > 0 {
			return "both are in"
		}
		must(s.T, one.stdin.Close())
		two.says("in")
		return "one after the other"
	}},
	{"six that wait", "(in no promised order)", "in no promised order", "in the order in which they came", func(s *fixture) string {
		holder := s.taken()
		var all []*tool
		for i := range 6 {
			all = append(all, s.sh(nil, `echo in; read line; exit 0`))
			s.waits(all[i])
		}
		must(s.T, holder.stdin.Close())
		for i, p := range all {
			p.says("in")
			for _, later := range all[i+1:] {
				if len(later.lines) > 0 {
					return "several are in"
				}
			}
			must(s.T, p.stdin.Close())
		}
		return "in the order in which they came"
	}},
	{"the command asks for the same lock", "waits for itself for ever", "waits for itself for ever", "waits for itself for ever", func(s *fixture) string {
		inner := s.command(runFlags{"--wait=5s"}, "echo", "never")
		p := s.run(nil, append([]string{"sh", "-c", `"$@" 2>/dev/null; echo $?`, "sh", inner.Path}, inner.Args[1:]...)...)
		if code := p.line(); code != "75" && code != "1" {
			return code
		}
		return "waits for itself for ever"
	}},
	{"... as the same owner", "-", "-", "goes in", func(s *fixture) string {
		inner := s.command(runFlags{"--wait=0", "--owner=me"}, "echo", "in")
		p := s.run(runFlags{"--owner=me"}, append([]string{"sh", "-c", `"$@"; echo $?`, "sh", inner.Path}, inner.Args[1:]...)...)
		p.says("in")
		p.says("0")
		p.ends(0)
		return "goes in"
	}},
	{"a lock without a line (--plain)", "(all are)", "all are", "excludes its like, not the fair one of that name", func(s *fixture) string {
		p := s.sh(runFlags{"--plain"}, "echo in; read line; exit 0")
		p.says("in")
		fair, plain := s.sh(runFlags{"--wait=0"}, "exit 0"), s.sh(runFlags{"--wait=0", "--plain"}, "exit 0")
		if one, two := s.ended(fair), s.ended(plain); one != 0 || two != 75 {
			return fmt.Sprint(one, two)
		}
		next := s.sh(runFlags{"--plain"}, "echo in")
		must(s.T, p.stdin.Close())
		next.says("in")
		return "excludes its like, not the fair one of that name"
	}},
}
