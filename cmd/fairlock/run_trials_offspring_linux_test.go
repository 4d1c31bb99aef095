package main

import (
	"golang.org/x/sys/unix"
)

// leaves plays a command that ends and leaves a process behind; the command has printed the id of
// that process.
func leaves(script string) func(*fixture) string {
	return func(s *fixture) string {
		var f runFlags
		if !s.flock {
			f = runFlags{"--kill-after=100ms"}
		}
		p := s.sh(f, script)
		pid := s.pid(p)
		defer func() { _ = unix.Kill(pid, unix.SIGKILL) }()
		_ = p.stdin.Close() // the command may wait for that; else it may have ended
		s.ended(p)
		if !alive(pid) {
			return "is ended"
		}
		return "lives on, " + s.free()
	}
}

var trialsOfOffspring = []trial{
	{
		"the command ends and leaves a child running", "lives on, with the lock", "lives on, without the lock", "is ended",
		leaves("sleep 60 & echo $!"),
	},
	{
		"... one in a process group of its own (a job, timeout)", "lives on, with the lock", "lives on, without the lock", "is ended",
		leaves("timeout 60 sh -c 'echo $$; exec sleep 60' & read line"),
	},
	{
		"... one that ignores SIGTERM", "lives on, with the lock", "lives on, without the lock", "is ended",
		leaves(`sh -c 'trap "" TERM; echo $$; while :; do sleep 0.02; done' & read line`),
	},
	{"... one that is about to end", "may end", "may end", "may end", func(s *fixture) string {
		for range 3 { // on a busy machine it may need longer than the second that it has
			p := s.sh(nil, "(sleep 0.1; echo last words) & echo the end")
			p.says("the end")
			said := <-p.lines
			p.ends(0)
			if said == "last words" {
				return "may end"
			}
		}
		return "is ended"
	}},
	{
		"... a daemon (setsid)", "lives on, with the lock", "lives on, without the lock", "lives on, without the lock",
		leaves("setsid sh -c 'echo $$; exec sleep 60' & read line"),
	},
	{"SIGTERM, and a child in a process group of its own", "dies; it lives on", "SIGTERM, 5 s, SIGKILL to the command; it lives on", "is ended with the command", func(s *fixture) string {
		p := s.sh(nil, "timeout 60 sh -c 'echo $$; exec sleep 60' & wait")
		pid := s.pid(p)
		defer func() { _ = unix.Kill(pid, unix.SIGKILL) }()
		s.hit(p, unix.SIGTERM)
		s.ended(p)
		if alive(pid) {
			return "dies; it lives on"
		}
		return "is ended with the command"
	}},
}
