package main

import (
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/fairlock/locks/test/redistest"
)

// pipe returns the ends of a pipe, which are open until the test ends.
func pipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() {
		_ = write.Close()
		_ = read.Close()
	})
	return read, write
}

// fill writes to a pipe until it takes no more.
func fill(t *testing.T, write *os.File) {
	t.Helper()
	full := int(write.Fd())
	must(t, syscall.SetNonblock(full, true))
	var err error
	for err == nil {
		_, err = syscall.Write(full, []byte{'.'})
	}
	must(t, syscall.SetNonblock(full, false))
}

// launchUnread starts a fairlock whose standard error nobody reads.
func launchUnread(t *testing.T, s *redistest.Server, args ...string) *tool {
	t.Helper()
	p := fairlockWith(t, []string{"FAIRLOCK_REDIS=redis://" + s.Addr()}, args...)
	_, full := pipe(t)
	fill(t, full)
	p.cmd.Stderr = full
	return p.start()
}

func TestALockThatIsGrantedIsUsedAlthoughNobodyReadsOfTheWaiting(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	lease := take(t, locker, "x")
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
	take(t, locker, "x")
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
