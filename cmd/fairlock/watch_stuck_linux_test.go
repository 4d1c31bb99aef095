package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/fairlock/locks/test/redistest"
)

func TestWatchWhoseReaderStandsStillEndsAtASecondSignal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	read, write := pipe(t)
	p := fairlockWith(t, []string{"FAIRLOCK_REDIS=redis://" + s.Addr()}, "watch", "x")
	p.startOn(write)
	_, err := read.Read(make([]byte, 1000)) // how the lock stands
	must(t, err)
	fill(t, write)
	other := launch(t, s, "watch", "--json", "x")
	other.tells("standing", "", 0)
	take(t, locker, "x")
	other.tells("granted", "", 0) // so the first one writes it, too, and stands still
	eventually(t, "it ends by the signals", func() bool {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-p.done:
			return true
		case <-time.After(20 * time.Millisecond):
			return false
		}
	})
	if got := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !got.Signaled() && got.ExitStatus() != 143 {
		t.Errorf("it ended with %v", p.cmd.ProcessState)
	}
	other.signals(syscall.SIGTERM)
	other.ends(143)
}
