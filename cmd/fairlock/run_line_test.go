package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

// inspectUntilHeld waits until the lock is held, and returns the token.
func inspectUntilHeld(t *testing.T, locker *fairlock.Locker, name string) (token int64) {
	t.Helper()
	eventually(t, name+" is held", func() bool {
		state := inspect(t, locker, name)
		if state.Holder != nil {
			token = state.Holder.Token
		}
		return token > 0
	})
	return token
}

func TestOnesTurnComesWhileOneWaitsForATime(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	gate := take(t, locker, "nightly")
	p := launch(t, s, "run", "--wait", "1m", "nightly", "--", "echo", "in")
	inLine(t, locker, "nightly", 1)
	if note := inspect(t, locker, "nightly").Waiters[0].Note; !strings.HasSuffix(note, fmt.Sprintf(":%d echo", p.cmd.Process.Pid)) {
		t.Errorf("note: %q", note)
	}
	must(t, gate.Unlock(t.Context()))
	p.says("in")
	p.ends(0)
}
