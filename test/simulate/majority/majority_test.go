package majority

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/fairlock/locks/test/race"
	"github.com/fairlock/locks/test/simulate/stage"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis logs every failed dial
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(1 << 30)
	os.Exit(m.Run())
}

// CI runs an hour and a half of traffic. The race detector makes everything ten times slower; with
// it CI runs a sample.
const (
	firstSeed  = 1
	lastSeed   = 6
	traffic    = 15 * time.Minute
	lastRaced  = 2
	raced      = time.Minute // of the traffic of each
	leastInAll = 85 * time.Minute
)

// planOf returns the run for a seed, on as many nodes as SIMULATE_NODES says. By default that is 3,
// and 5 for each fourth seed.
func planOf(seed uint64) Plan {
	n := stage.Mix(seed)
	p := Plan{
		Seed: seed, Length: traffic, Nodes: 3, Clients: 3 + int(n%2), Actors: 3, Names: 2 + int(n>>8%2),
		Latency: time.Millisecond, Longest: 30 * time.Second, Apart: seed%2 == 1,
	}
	if seed%4 == 0 {
		p.Nodes = 5
	}
	if nodes, err := strconv.Atoi(os.Getenv("SIMULATE_NODES")); err == nil {
		p.Nodes = nodes
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
	stage.Bubble(t, plan.Seed, func() { o = Run(plan) })
	return o
}

// sound is a run to which the referee must not object.
func sound(t *testing.T, plan Plan) Outcome {
	t.Helper()
	o := run(t, plan)
	for _, v := range o.Violations[:min(len(o.Violations), 3)] {
		t.Error(v)
	}
	if len(o.Violations) > 0 {
		t.Logf("the history before it:\n%s", o.Tail)
	}
	return o
}

func TestWholeClientsOfAQuorumKeepTheInvariantsThroughAllFaults(t *testing.T) {
	from, to, asked := stage.Seeds(t, firstSeed, lastSeed, lastRaced)
	began := time.Now()
	var mu sync.Mutex
	var all Stats
	var digest uint64
	t.Run("seeds", func(t *testing.T) {
		for seed := from; seed <= to; seed++ {
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				plan := planOf(seed)
				if race.Enabled && !asked {
					plan.Length = raced
				}
				if asked && from == to {
					plan.Echo = func(line string) { fmt.Println(line) }
				}
				o := sound(t, plan)
				mu.Lock()
				all.Add(o.Stats)
				digest ^= o.Digest
				mu.Unlock()
			})
		}
	})
	t.Logf("seeds %d to %d in %v, digest %x: %+v", from, to, time.Since(began).Round(time.Millisecond), digest, all)
	if asked || race.Enabled || t.Failed() {
		return
	}
	if all.Simulated < leastInAll {
		t.Errorf("only %v were simulated", all.Simulated)
	}
	if share := 100 * all.Waited / all.Owned; share < 50 {
		t.Errorf("only %d %% of the locks were contended", share)
	}
	for _, kind := range kinds {
		if all.Faults[kind] < 3 {
			t.Errorf("%d of fault %q", all.Faults[kind], kind)
		}
	}
}

// kinds are all kinds of faults.
var kinds = []string{
	"lost request", "lost reply", "late request", "slow reply", "lost message", "late message", "cut subscription", "cut all",
	"stalled requests", "stalled replies", "stalled network", "weather", "partition", "node hangs", "slow node", "clock step", "flush",
	"node restarted empty", "node restarted with old data", "node restarted with its data", "all hang", "all flushed", "all restarted",
	"pause", "kill", "power loss", "close", "shutdown", "close by a callback", "force", "evict",
	"client without timeouts", "slow hook", "hook panics", "hook ends its goroutine",
	"slow callback", "callback calls back", "callback panics", "callback ends its goroutine",
	"slow context", "context panics", "context ends its goroutine",
	"slow teller", "teller calls back", "teller panics", "teller ends its goroutine",
}

// Which of two goroutines goes first that wake at one instant is left to chance: one run of 15
// minutes in five turns out differently for that reason.
func TestASeedOfAQuorumIsTheSameRunNearlyEveryTime(t *testing.T) {
	if race.Enabled {
		t.Skip("whether a seed repeats does not depend on the race detector")
	}
	stage.Repeats(t, []uint64{2, 3, 5}, func(t *testing.T, seed, other uint64) (uint64, int) {
		plan := planOf(seed)
		plan.Seed += other
		plan.Length = 2 * time.Minute
		o := run(t, plan)
		return o.Digest, o.Requests
	})
}

func TestInCalmWeatherEveryCallOfAQuorumEndsWellAndNoWantedLockIsIdle(t *testing.T) {
	for seed := range uint64(4) {
		plan := planOf(seed)
		plan.Calm, plan.Herd, plan.Length = true, seed == 2, 3*time.Minute
		if race.Enabled {
			if plan.Length = raced; seed != 2 {
				continue
			}
		}
		t.Logf("%+v", sound(t, plan).Stats)
	}
}

// All nodes at once restart with old data, again and again, under somebody who has the lock.
func TestNodesThatForgetTogetherRobNobody(t *testing.T) {
	for seed := range uint64(3) {
		plan := planOf(seed)
		plan.Rewinds, plan.Names, plan.Length = true, 1, 6*time.Minute
		if race.Enabled {
			if plan.Length = raced; seed > 0 {
				continue
			}
		}
		o := sound(t, plan)
		if n := o.Faults["node restarted with old data"]; n < plan.Nodes || o.Owned == 0 {
			t.Errorf("seed %d: %d restarts, %d ownerships", seed, n, o.Owned)
		}
	}
}

// The names of some nodes lead to others, again and again, for some clients or for all.
func TestNamesThatLeadToOtherNodesRobNobody(t *testing.T) {
	for seed := range uint64(3) {
		plan := planOf(seed)
		plan.Misled, plan.Length = true, 6*time.Minute
		if race.Enabled {
			if plan.Length = raced; seed > 0 {
				continue
			}
		}
		o := sound(t, plan)
		if n := o.Faults["misled name"]; n == 0 && !race.Enabled || o.Owned == 0 {
			t.Errorf("seed %d: %d names, %d ownerships", seed, n, o.Owned)
		}
	}
}
