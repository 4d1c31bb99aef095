package main

import (
	"strconv"
	"testing"

	"github.com/fairlock/locks/internal/redistest"
)

func TestTheCommandDiesWithAKilledFairlock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	p := launch(t, s, "run", "--lease", "500ms", "x", "--", "sh", "-c", "echo $$; exec sleep 60")
	pid, err := strconv.Atoi(p.line())
	must(t, err)
	next := launch(t, s, "run", "x", "--", "echo", "in")
	inLine(t, locker, "x", 1)
	must(t, p.cmd.Process.Kill())
	eventually(t, "the command is gone", func() bool { return !alive(pid) })
	next.says("in")
	next.ends(0)
}
