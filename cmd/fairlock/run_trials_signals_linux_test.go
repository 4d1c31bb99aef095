package main

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
)

// killers are the signals that mean to end a process, and end one that does not handle them.
var killers = []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM}

// deaf is a command that only SIGKILL ends.
const deaf = `trap "" HUP INT QUIT TERM; echo in; while :; do sleep 0.02; done`

// each plays a case once for each signal, with a new lock each time.
func (s *fixture) each(signals []syscall.Signal, play func(s *fixture, sig syscall.Signal) string) string {
	s.Helper()
	var all []string
	for _, sig := range signals {
		one := *s
		one.name += fmt.Sprint(int(sig))
		if said := play(&one, sig); len(all) == 0 || said != all[len(all)-1] {
			all = append(all, said)
		}
	}
	return strings.Join(all, ", ")
}

// ownServer gives the fixture a redis-server of its own.
func (s *fixture) ownServer() *redistest.Server {
	s.Helper()
	s.server = redistest.Start(s.T)
	s.locker = observer(s.T, s.server)
	return s.server
}

var trialsOfSignals = []trial{
	{"SIGTERM before the server has answered", "-", "1", "143", func(s *fixture) string {
		proxy := faultproxy.New(s.T, s.server.Addr())
		held := proxy.Add(faultproxy.Rule{Match: faultproxy.Any, Action: faultproxy.HoldRequest()})
		p := s.sh(runFlags{"--redis=redis://" + proxy.Addr()}, "echo never")
		held.WaitHit(s.T, 1, patienceOfTests)
		s.hit(p, unix.SIGTERM)
		code := s.ends(p)
		p.complains("terminated", s.name)
		return code
	}},
	{"SIGHUP, SIGINT, SIGQUIT, SIGTERM while it waits", "129, 130, 131, 143, out of the line", "1 of SIGINT and SIGTERM, up to 15 s later; dies of the others", "129, 130, 131, 143, out of the line", func(s *fixture) string {
		codes := s.each(killers, func(s *fixture, sig syscall.Signal) string {
			holder := s.taken()
			p := s.sh(nil, "echo never")
			s.waits(p)
			next := s.sh(nil, "echo in")
			s.waits(next)
			s.hit(p, sig)
			code := s.ends(p)
			if !s.flock {
				p.complains(s.name, "of waiting")
				inLine(s.T, s.locker, s.name, 1)
			}
			must(s.T, holder.stdin.Close())
			next.says("in")
			if rest := p.rest(); len(rest) > 0 {
				s.Errorf("it ran: %q", rest)
			}
			return code
		})
		return codes + ", out of the line"
	}},
	{"SIGUSR1, SIGUSR2 while it waits", "138, 140", "waits on", "waits on", func(s *fixture) string {
		return s.each([]syscall.Signal{unix.SIGUSR1, unix.SIGUSR2}, func(s *fixture, sig syscall.Signal) string {
			holder := s.taken()
			p := s.sh(nil, "echo in")
			s.waits(p)
			s.hit(p, sig)
			if !s.flock {
				s.heard(p)
			}
			must(s.T, holder.stdin.Close())
			if code := s.ended(p); code != 0 {
				return fmt.Sprint(code)
			}
			return "waits on"
		})
	}},
	{"SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2 while the command runs", "dies; the command goes on with the lock", "SIGINT, SIGTERM: as when the lock is lost", "the command and its children hear it", func(s *fixture) string {
		return s.each(append([]syscall.Signal{unix.SIGUSR1, unix.SIGUSR2}, killers...), func(s *fixture, sig syscall.Signal) string {
			// The inner shell gets the signal itself. The outer shell lives on to tell what
			// happened to it.
			script := `exec 2>/dev/null; trap 'echo outer' $1; sh -c "trap 'exit 5' $1; echo in; while :; do sleep 0.02; done"; echo "inner ended with $?"; exit 9`
			p := s.sh(nil, script, fmt.Sprint(int(sig)))
			p.says("in")
			s.hit(p, sig)
			if s.flock {
				s.ended(p)
				return "dies; the command goes on " + s.free()
			}
			p.says("outer")
			p.says("inner ended with 5")
			p.ends(9)
			return "the command and its children hear it"
		})
	}},
	{"SIGTERM, and the command ignores it", "dies; the command goes on with the lock", "SIGKILL after 5 s", "goes on with the command", func(s *fixture) string {
		p := s.sh(nil, `trap 'echo told' TERM; trap 'exit 3' USR1; echo in; while :; do sleep 0.02; done`)
		p.says("in")
		s.hit(p, unix.SIGTERM)
		if s.flock {
			s.ended(p)
			return "dies; the command goes on " + s.free()
		}
		p.says("told")
		s.hit(p, unix.SIGUSR1)
		p.ends(3)
		return "goes on with the command"
	}},
	{"the same, to be killed after 100 ms", "-", "is always killed after 5 s", "137", func(s *fixture) string {
		p := s.sh(runFlags{"--kill-after=100ms"}, deaf)
		p.says("in")
		s.hit(p, unix.SIGTERM)
		return s.ends(p)
	}},
	{"SIGTERM when the command has ended, while the lock is handed on", "-", "0; 2 with -child-exit-code", "the command's exit code", func(s *fixture) string {
		proxy := faultproxy.New(s.T, s.server.Addr())
		p := s.sh(runFlags{"--redis=redis://" + proxy.Addr()}, "echo in; read line; exit 4")
		p.says("in")
		held := proxy.Add(faultproxy.Rule{Match: faultproxy.Any, Action: faultproxy.HoldRequest()})
		must(s.T, p.stdin.Close())
		held.WaitHit(s.T, 1, patienceOfTests)
		s.hit(p, unix.SIGTERM)
		held.Remove()
		held.Release()
		if code := s.ends(p); code != "4" {
			return code
		}
		return "the command's exit code"
	}},
	{"SIGHUP when it was started with nohup", "goes on", "goes on", "goes on", func(s *fixture) string {
		p := s.through(`trap "" HUP; `, s.command(nil, "sh", "-c", "echo in; read line; exit 6"))
		p.says("in")
		s.hit(p, unix.SIGHUP)
		fmt.Fprintln(p.stdin)
		if code := s.ended(p); code != 6 {
			return fmt.Sprint(code)
		}
		return "goes on"
	}},
	{"it is killed itself (SIGKILL)", "the command lives on, with the lock", "the command lives on, without the lock", "command and children are killed; the next has the lock when the lease is over", func(s *fixture) string {
		var f runFlags
		if !s.flock {
			f = runFlags{"--lease=3s"}
		}
		// Not at once: the guard may not know the group yet.
		p := s.sh(f, `sleep 2; sh -c 'echo $$; while :; do sleep 0.02; done' & echo $$; wait`)
		one, two := s.pid(p), s.pid(p)
		s.hit(p, unix.SIGKILL)
		s.ended(p)
		if s.flock {
			if !alive(one) || !alive(two) {
				return "the command is killed"
			}
			return "the command lives on, " + s.free()
		}
		eventually(s.T, "both are gone", func() bool { return !alive(one) && !alive(two) })
		p = s.sh(nil, "echo in")
		p.says("in")
		return "command and children are killed; the next has the lock when the lease is over"
	}},
	{"it stands still for longer than the lease (SIGSTOP)", "-", "the lock is lost", "the lock is lost: 76", func(s *fixture) string {
		p := s.sh(runFlags{"--lease=3s"}, "echo in; exec sleep 60")
		p.says("in")
		s.hit(p, unix.SIGSTOP)
		eventually(s.T, "the lease has ended", func() bool { return inspect(s.T, s.locker, s.name).Holder == nil })
		s.hit(p, unix.SIGCONT)
		return "the lock is lost: " + s.ends(p)
	}},
}

// pid returns the process id that the command prints.
func (s *fixture) pid(p *tool) int {
	s.Helper()
	pid, err := strconv.Atoi(p.line())
	must(s.T, err)
	return pid
}
