package torture

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	duration = flag.Duration("torture", time.Minute, "how long the workers are tortured, all but the wait for the last keys' end")
	seed     = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the saboteur's and the workers' choices")
	keep     = flag.String("keep", "", "a directory for the journals of the workers and the server")
)

func TestMain(m *testing.M) {
	Main() // if this process was started as a worker
	flag.Parse()
	goleak.VerifyTestMain(m)
}

func TestWhateverIsDoneToThemNoTwoHaveALockAndNobodyIsForgotten(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	dir := *keep
	if dir == "" {
		dir = t.TempDir()
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	a := newArena(t, *seed, dir)
	s := &saboteur{arena: a, counts: make(map[string]int)}
	s.rage(began.Add(*duration * 3 / 4))
	r := &report{arena: a, saboteur: s}
	r.finish()
	r.judge()
	t.Logf("seed %d\n%v", *seed, r)
	if t.Failed() && *keep == "" {
		for _, l := range a.lives {
			logs, _ := filepath.Glob(l.journal + ".log")
			_ = logs
		}
	}
}

var _ = strings.Join
var _ = context.Background
