package torture

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

var (
	duration = flag.Duration("torture", time.Minute, "how long the workers are tortured, all but the wait for the last keys' end")
	seed     = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the saboteur's and the workers' choices")
	keep     = flag.String("keep", "", "a directory in which to keep the journals of the workers and the server")
)

func TestMain(m *testing.M) {
	Main() // if this process was started as a worker
	flag.Parse()
	redis.SetLogger(silent{}) // it is no news here that a server is away
	goleak.VerifyTestMain(m)
}

func TestWhateverIsDoneToThemNoTwoHaveALockAndNobodyIsForgotten(t *testing.T) {
	dir := journals(t)
	began := time.Now()
	t.Logf("seed %d", *seed)
	a := newArena(t, *seed, dir)
	s := &saboteur{a, deck[*saboteur]{all: tricks, counts: make(map[string]int)}}
	s.rage(began.Add(*duration*5/6), s.strike)
	r := &report{saboteur: s, table: table{tb: t}, lasted: time.Since(began)}
	r.finish()
	r.judge()
	t.Logf("tortured for %v\n%v", time.Since(began).Round(time.Second), r)
}

// journals is where the journals of a run are: they are kept if somebody asked for that.
func journals(t *testing.T) string {
	t.Helper()
	if *keep == "" {
		return t.TempDir()
	}
	dir := filepath.Join(*keep, "torture-"+time.Now().Format("20060102-150405.000"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Logf("journals are kept in %s", dir)
	return dir
}
