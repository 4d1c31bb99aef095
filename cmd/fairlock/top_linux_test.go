package main

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
)

// sitDownAtTop starts fairlock top on a terminal of this size.
func sitDownAtTop(t *testing.T, s *redistest.Server, columns, rows uint16) *console {
	t.Helper()
	c := sitDown(t, s, os.Args[0], "top")
	c.sized(columns, rows)
	c.sees(onScreen)
	return c
}

// The codes that switch to the screen of full-screen programs and back.
const (
	onScreen  = "\x1b[?1049h"
	offScreen = "\x1b[?1049l"
)

func (c *console) sized(columns, rows uint16) {
	c.t.Helper()
	must(c.t, unix.IoctlSetWinsize(int(c.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}))
}

func TestTheLiveScreenFollowsTheServerAndTheTerminalUntilQ(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := observer(t, s)
	c := sitDownAtTop(t, s, 100, 20)
	c.sees("0 locks")
	lease, err := a.Lock(t.Context(), "a new one", fairlock.Note("its holder"))
	must(t, err)
	c.sees("a new one")
	c.sees("its holder")
	c.sized(40, 10)
	c.sees("/s  0s") // what was on the screen before is not always written again
	c.types("\r")
	c.sees("lease ends in")
	c.types("?")
	c.sees("choose a lock")
	c.types("q")
	c.ends(0)
	c.sees(offScreen)
	must(t, lease.Unlock(t.Context()))
}

func TestASignalGivesTheTerminalBack(t *testing.T) {
	t.Parallel()
	c := sitDownAtTop(t, redistest.Start(t), 80, 24)
	c.sees("0 locks")
	must(t, c.cmd.Process.Signal(syscall.SIGTERM))
	c.ends(143)
	c.sees(offScreen)
}

func TestASignalBeforeTheServerHasAnsweredEndsTheLiveScreenAsAnyOther(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faultproxy.New(t, s.Addr())
	held := proxy.Add(faultproxy.Rule{Match: faultproxy.Any, Action: faultproxy.HoldRequest()})
	c := sitDown(t, s, os.Args[0], "top", "--redis", "redis://"+proxy.Addr())
	held.WaitHit(t, 1, patienceOfTests)
	must(t, c.cmd.Process.Signal(syscall.SIGTERM))
	c.ends(143)
}
