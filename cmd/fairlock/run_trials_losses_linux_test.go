package main

import (
	"io"
	"strings"

	"github.com/fairlock/locks/test/faultproxy"
)

// obedient prints that it was told to end, and ends. On stderr a shell reports how its children
// ended; the trials do not need that.
const obedient = `exec 2>/dev/null; trap 'echo told; exit 3' TERM; echo in; while :; do sleep 0.02; done`

// short is a lease that ends soon, with much time for the command to end after that.
var short = runFlags{"--lease=3s", "--kill-after=1m"}

// loses plays a lock that is lost in the given way.
func loses(f runFlags, lose func(*fixture)) func(*fixture) string {
	return func(s *fixture) string {
		p := s.sh(f, obedient)
		p.says("in")
		lose(s)
		p.says("told")
		code := s.ends(p)
		p.complainsTwice(s.name, "is told to stop", "exit code 3")
		return "is told to end: " + code
	}
}

// onItsOwn gives a play a server of its own.
func onItsOwn(play func(*fixture) string) func(*fixture) string {
	return func(s *fixture) string {
		s.ownServer()
		return play(s)
	}
}

// inThreeRounds plays until the commands are not together. Between SIGKILL and the hand-over there
// are 100 ms: a busy machine may need longer, but hardly three times.
func inThreeRounds(play func(*fixture) string) func(*fixture) string {
	return func(s *fixture) (result string) {
		for range 3 {
			if result = play(s); result != "together" {
				break
			}
		}
		return result
	}
}

var trialsOfLosses = []trial{
	{"the record of the lock is deleted", "-", "SIGTERM, 5 s, SIGKILL", "is told to end: 76", loses(short, func(s *fixture) {
		keys, err := s.server.Client(s.T).Keys(s.Context(), "fairlock:lock:{*"+s.name[strings.LastIndex(s.name, "/"):]+"}").Result()
		must(s.T, err)
		must(s.T, s.server.Client(s.T).Del(s.Context(), keys...).Err())
	})},
	{"an operator ends the ownership", "-", "SIGTERM, 5 s, SIGKILL", "is told to end: 76", loses(short, func(s *fixture) {
		must(s.T, s.locker.ForceUnlock(s.Context(), s.name))
	})},
	{
		"the server is gone for longer than the lease", "-", "SIGTERM, 5 s, SIGKILL", "is told to end: 76",
		onItsOwn(loses(short, func(s *fixture) { s.server.Kill() })),
	},
	{
		"the server is silent for longer than the lease", "-", "SIGTERM, 5 s, SIGKILL", "is told to end: 76",
		onItsOwn(loses(short, func(s *fixture) { s.server.Pause() })),
	},
	{"a lease that is not renewed is over", "-", "-", "is told to end: 76", loses(runFlags{"--fixed-lease=3s", "--kill-after=1m"}, func(*fixture) {})},
	{"the lock is lost while the command is stopped", "-", "SIGTERM is not heard; SIGKILL after 5 s", "is woken and told to end: 76", func(s *fixture) string {
		p := s.sh(runFlags{"--lease=3s", "--kill-after=1m"}, "echo in; kill -STOP $$; exit 8")
		p.says("in")
		must(s.T, s.locker.ForceUnlock(s.Context(), s.name))
		return "is woken and told to end: " + s.ends(p)
	}},
	{"the lock is lost, and command and children ignore SIGTERM", "-", "SIGKILL after 5 s; children live on", "all are killed: 76", func(s *fixture) string {
		p := s.sh(runFlags{"--lease=3s"}, `trap "" TERM; timeout -s INT 60 sh -c 'echo $$; while :; do sleep 0.02; done' & echo $$; wait`)
		one, two := s.pid(p), s.pid(p)
		must(s.T, s.locker.ForceUnlock(s.Context(), s.name))
		code := s.ends(p)
		if alive(one) || alive(two) {
			return "somebody lives on: " + code
		}
		return "all are killed: " + code
	}},
	{"the server restarts within the lease, and has lost all data", "-", "-", "notices nothing", func(s *fixture) string {
		server := s.ownServer()
		p := s.sh(runFlags{"--lease=15s"}, "echo in; read line; exit 0")
		p.says("in")
		server.Kill()
		server.Restart()
		eventually(s.T, "the lock is written down again", func() bool { return inspect(s.T, s.locker, s.name).Holder != nil })
		must(s.T, p.stdin.Close())
		if code := s.ends(p); code != "0" {
			return code
		}
		return "notices nothing"
	}},
	{"the server restarts while it waits, and has lost all data", "-", "1", "waits on, in its place", func(s *fixture) string {
		server := s.ownServer()
		holder := s.sh(runFlags{"--lease=5s"}, "echo in; read line; exit 0")
		holder.says("in")
		script := "echo in; read line; exit 0"
		one := s.sh(nil, script)
		s.waits(one)
		two := s.sh(nil, script)
		s.waits(two)
		server.Kill()
		server.Restart()
		eventually(s.T, "both listen again", func() bool {
			return len(server.Client(s.T).PubSubChannels(s.Context(), "*").Val()) == 2
		})
		s.waits(two)
		s.waits(one)
		must(s.T, holder.stdin.Close())
		one.says("in")
		if len(two.lines) > 0 {
			return "both are in"
		}
		must(s.T, one.stdin.Close())
		two.says("in")
		return "waits on, in its place"
	}},
	{"the server is gone while it waits, for longer than it may", "-", "1", "75", func(s *fixture) string {
		server := s.ownServer()
		s.taken()
		p := s.sh(runFlags{"--wait=2s", "--verbose"}, "echo never")
		eventually(s.T, "it knows its place", func() bool { return strings.Contains(p.stderr.String(), "place 1 in line") })
		server.Kill()
		return s.ends(p)
	}},
	{"two hosts, and one is cut off from the server", "-", "SIGTERM, 5 s, SIGKILL; the other begins 15 s after the session has ended", "its command is killed before the other's begins", func(s *fixture) string {
		proxy := faultproxy.New(s.T, s.server.Addr())
		one := s.start(s.on("one", runFlags{"--lease=10s", "--kill-after=0", "--redis=redis://" + proxy.Addr()}, "sh", "-c", `trap "" TERM; echo $$; while :; do sleep 0.02; done`))
		pid := one.line()
		two := s.start(s.on("two", nil, "sh", "-c", `case $(cut -d" " -f3 /proc/$0/stat 2>/dev/null) in ""|[ZX]) echo alone;; *) echo together;; esac`, pid))
		s.waits(two)
		proxy.Freeze(true)
		said := two.line()
		proxy.Freeze(false)
		if code := s.ended(one); code != 76 || said != "alone" {
			return said
		}
		return "its command is killed before the other's begins"
	}},
	{"... which it had waited for, a moment ago", "-", "as above", "its command is killed before the other's begins", inThreeRounds(func(s *fixture) string {
		proxy := faultproxy.New(s.T, s.server.Addr())
		holder := s.taken()
		one := s.start(s.on("one", runFlags{"--redis=redis://" + proxy.Addr()}, "sh", "-c", `trap "" TERM; echo $$; while :; do sleep 0.02; done`))
		s.waits(one)
		two := s.start(s.on("two", nil, "sh", "-c", `read pid; case $(cut -d" " -f3 /proc/$pid/stat 2>/dev/null) in ""|[ZX]) echo alone;; *) echo together;; esac`))
		s.waits(two)
		must(s.T, holder.stdin.Close())
		pid := one.line()
		proxy.Freeze(true)
		_, err := io.WriteString(two.stdin, pid+"\n")
		must(s.T, err)
		said := two.line()
		proxy.Freeze(false)
		if code := s.ended(one); code != 76 || said != "alone" {
			return said
		}
		return "its command is killed before the other's begins"
	})},
}
