package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/internal/redistest"
)

// inspectUntilHeld waits until somebody has the lock and returns the token.
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

func TestTwoShellsRunOneAfterTheOther(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	script := "echo in; read line; echo out"
	one := launch(t, s, "run", "nightly", "--", "sh", "-c", script)
	one.says("in")
	two := launch(t, s, "run", "nightly", "--", "sh", "-c", script)
	inLine(t, locker, "nightly", 1)
	if len(two.lines) > 0 {
		t.Fatal("both are in")
	}
	fmt.Fprintln(one.stdin)
	one.says("out")
	two.says("in")
	one.ends(0)
	fmt.Fprintln(two.stdin)
	two.says("out")
	two.ends(0)
}

func TestShellsAreServedInOrderAndNeverTogether(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	gate := hold(t, locker, "nightly")
	log := filepath.Join(t.TempDir(), "log")
	var all []*tool
	var want strings.Builder
	for i := range 6 {
		all = append(all, launch(t, s, "run", "nightly", "--", "sh", "-c", `echo "in $1" >>"$0"; echo "out $1" >>"$0"`, log, fmt.Sprint(i)))
		inLine(t, locker, "nightly", i+1)
		fmt.Fprintf(&want, "in %d\nout %d\n", i, i)
	}
	must(t, gate.Unlock(t.Context()))
	for _, p := range all {
		p.ends(0)
	}
	if got, err := os.ReadFile(log); err != nil || string(got) != want.String() {
		t.Fatalf("%v, %s", err, got)
	}
}

func TestOnesTurnComesWhileOneWaitsForATime(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	gate := hold(t, locker, "nightly")
	p := launch(t, s, "run", "--wait", "1m", "nightly", "--", "echo", "in")
	inLine(t, locker, "nightly", 1)
	if note := inspect(t, locker, "nightly").Waiters[0].Note; !strings.HasSuffix(note, fmt.Sprintf(":%d echo", p.cmd.Process.Pid)) {
		t.Errorf("note: %q", note)
	}
	must(t, gate.Unlock(t.Context()))
	p.says("in")
	p.ends(0)
}

func TestTheWaitGoesOnWhileTheServerIsRestarted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := fairlock.New(s.Client(t), fairlock.WithLease(time.Second))
	hold(t, locker, "nightly")
	p := launch(t, s, "run", "--lease", "1s", "nightly", "--", "echo", "in")
	inLine(t, locker, "nightly", 1)
	eventually(t, "it knows that it is in line, and listens", func() bool {
		return len(s.Client(t).PubSubChannels(t.Context(), "*").Val()) > 0
	})
	must(t, locker.Close()) // and never unlock
	s.Kill()
	s.Restart()
	p.ends(0)
	p.says("in")
	p.complains("subscription lost")
}
