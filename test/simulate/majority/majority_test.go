package majority

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/fairlock/locks/test/simulate/stage"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis logs every failed dial
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(1 << 30)
	os.Exit(m.Run())
}

const (
	firstSeed = 1
	lastSeed  = 12
	traffic   = 15 * time.Minute
)

// planOf returns the run for a seed.
func planOf(seed uint64) Plan {
	n := stage.Mix(seed)
	p := Plan{
		Seed: seed, Length: traffic, Nodes: 3, Clients: 3 + int(n%2), Actors: 3, Names: 2 + int(n>>8%2),
		Latency: time.Millisecond, Longest: 30 * time.Second, Apart: seed%2 == 1,
	}
	if seed%4 == 0 {
		p.Nodes = 5
	}
	if seed%5 == 0 {
		p.Latency = 10 * time.Millisecond
	}
	if seed%6 == 0 {
		p.Longest = time.Minute
	}
	return p
}

func run(t *testing.T, plan Plan) (o Outcome) {
	t.Helper()
	defer time.AfterFunc(stuck, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("seed %d: no end after %v: somebody waits for a mutex for good", plan.Seed, stuck))
	}).Stop()
	synctest.Test(t, func(*testing.T) { o = Run(plan) })
	return o
}

const stuck = 10 * time.Minute

// seeds returns the range in SIMULATE_SEEDS, "7" or "1000-1999", or else CI's.
func seeds(t *testing.T) (from, to uint64, asked bool) {
	t.Helper()
	text := os.Getenv("SIMULATE_SEEDS")
	if text == "" {
		return firstSeed, lastSeed, false
	}
	first, last, several := strings.Cut(text, "-")
	if !several {
		last = first
	}
	from, err1 := strconv.ParseUint(first, 10, 64)
	to, err2 := strconv.ParseUint(last, 10, 64)
	if err1 != nil || err2 != nil || to < from {
		t.Fatalf("SIMULATE_SEEDS=%s: want a seed, or two with a dash between them", text)
	}
	return from, to, true
}

func TestWholeClientsOfAQuorumKeepTheInvariantsThroughAllFaults(t *testing.T) {
	from, to, asked := seeds(t)
	began := time.Now()
	var mu sync.Mutex
	var all Stats
	var digest uint64
	t.Run("seeds", func(t *testing.T) {
		for seed := from; seed <= to; seed++ {
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				plan := planOf(seed)
				if asked && from == to {
					plan.Echo = func(line string) { fmt.Println(line) }
				}
				o := run(t, plan)
				mu.Lock()
				all.Add(o.Stats)
				digest ^= o.Digest
				mu.Unlock()
				for _, v := range o.Violations[:min(len(o.Violations), 3)] {
					t.Error(v)
				}
				if t.Failed() {
					t.Logf("the history before it:\n%s", o.Tail)
				}
			})
		}
	})
	t.Logf("seeds %d to %d in %v, digest %x: %+v", from, to, time.Since(began).Round(time.Millisecond), digest, all)
}

func TestInCalmWeatherEveryCallOfAQuorumEndsWellAndNoWantedLockIsIdle(t *testing.T) {
	for seed := range uint64(8) {
		plan := planOf(seed)
		plan.Calm, plan.Length = true, 5*time.Minute
		o := run(t, plan)
		for _, v := range o.Violations[:min(len(o.Violations), 3)] {
			t.Error(v)
		}
		if t.Failed() {
			t.Log(o.Tail)
		}
		t.Logf("%+v", o.Stats)
	}
}
