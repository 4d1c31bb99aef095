package main

import (
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/fairlock/locks/test/redistest"
)

// fullPipe returns the end to write of a pipe that nobody reads and that takes no more.
func fullPipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() {
		_ = write.Close()
		_ = read.Close()
	})
	full := int(write.Fd())
	must(t, syscall.SetNonblock(full, true))
	for err == nil {
		_, err = syscall.Write(full, []byte{'.'})
	}
	must(t, syscall.SetNonblock(full, false))
	return read, write
}

// launchUnread starts a fairlock whose standard error nobody reads.
func launchUnread(t *testing.T, s *redistest.Server, args ...string) *tool {
	t.Helper()
	p := fairlockWith(t, []string{"FAIRLOCK_REDIS=redis://" + s.Addr()}, args...)
	_, p.cmd.Stderr = fullPipe(t)
	return p.start()
}

func TestALockThatIsGrantedIsUsedAlthoughNobodyReadsOfTheWaiting(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	lease := hold(t, locker, "x")
	p := launchUnread(t, s, "run", "-v", "x", "--", "sh", "-c", "echo in")
	inLine(t, locker, "x", 1)
	must(t, lease.Unlock(t.Context()))
	p.says("in")
	p.ends(0)
}

func TestASignalEndsTheWaitingOfWhichNobodyReads(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	hold(t, locker, "x")
	p := launchUnread(t, s, "run", "-v", "x", "--", "true")
	inLine(t, locker, "x", 1)
	must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.ends(143)
	inLine(t, locker, "x", 0)
}

func TestWhatTheCommandLeavesRunningIsEndedAlthoughNobodyReadsOfThat(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := launchUnread(t, s, "run", "x", "--", "sh", "-c", "sleep 600 & echo $!")
	pid, err := strconv.Atoi(p.line())
	must(t, err)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	p.ends(0)
	if alive(pid) {
		t.Error("it still runs")
	}
}
