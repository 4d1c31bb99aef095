package simulate

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/test/race"
	"github.com/fairlock/locks/test/simulate/stage"
)

// CI runs 4 hours of traffic. The race detector makes everything ten times slower; with it CI runs
// a sample.
const (
	firstSeed  = 1
	lastSeed   = 16
	lastRaced  = 2
	traffic    = 15 * time.Minute
	leastInAll = 3 * time.Hour
)

// planOf returns the run for a seed.
func planOf(seed uint64) Plan {
	n := stage.Mix(seed)
	p := Plan{
		Seed: seed, Length: traffic, Plain: seed%8 == 7,
		Clients: 3 + int(n%3), Actors: 3, Names: 2 + int(n>>8%2), Latency: time.Millisecond,
		Troubles: chosen(),
	}
	if seed%5 == 0 {
		p.Latency = 20 * time.Millisecond
	}
	return p
}

// chosen returns the trouble that SIMULATE_TROUBLES names, as in "forged,torn" or "none". By
// default it is all of it.
func chosen() (all Trouble) {
	text := os.Getenv("SIMULATE_TROUBLES")
	if text == "" {
		return Everything
	}
	for i, name := range troubles {
		if slices.Contains(strings.Split(text, ","), name) {
			all |= 1 << i
		}
	}
	return all
}

// realTime ticks until the test ends, for whoever waits for it.
func realTime(t *testing.T) <-chan struct{} {
	t.Helper()
	clock := time.NewTicker(tick)
	ticks, ended := make(chan struct{}), make(chan struct{})
	go func() {
		for {
			select {
			case <-clock.C:
			case <-ended:
				return
			}
			select {
			case ticks <- struct{}{}:
			default:
			}
		}
	}()
	t.Cleanup(func() {
		clock.Stop()
		close(ended)
	})
	return ticks
}

func run(t *testing.T, plan Plan) (o Outcome) {
	t.Helper()
	plan.Real = realTime(t)
	stage.Bubble(t, plan.Seed, func() { o = Run(plan) })
	return o
}

func TestWholeClientsKeepTheInvariantsThroughAllFaults(t *testing.T) {
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
					plan.Length = 3 * time.Minute
				}
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
	t.Logf("seeds %d to %d in %v, digest %x: %v", from, to, time.Since(began).Round(time.Millisecond), digest, all)
	if asked || race.Enabled || t.Failed() {
		return
	}
	if all.Simulated < leastInAll {
		t.Errorf("only %v were simulated", all.Simulated)
	}
	if share := 100 * all.Waited / all.Fair; share < 50 {
		t.Errorf("only %d %% of the fair locks were contended", share)
	}
	for _, kind := range kinds {
		if all.Faults[kind] < 4 {
			t.Errorf("%d of fault %q", all.Faults[kind], kind)
		}
	}
}

// kinds are all kinds of faults.
var kinds = []string{
	"lost request", "lost reply", "late request", "doubled request", "slow reply", "lost message", "late message", "doubled message",
	"cut connection", "cut subscription", "cut all", "stalled requests", "stalled replies", "stalled network", "slow server", "pause",
	"flush", "restart with data", "restart without data", "clock step", "kill", "power loss", "close", "shutdown", "force", "evict",
	"close twice", "close in a shutdown", "close at a grant", "close by a callback", "outage", "refusal", "proxy's error",
	"spell of NOREPLICAS", "spell of MISCONF", "spell of BUSY", "spell of LOADING", "spell of OOM", "spell of NOPERM",
	"slow callback", "callback calls back", "callback panics", "callback ends its goroutine", "slow context", "context panics", "context ends its goroutine",
	"slow teller", "teller calls back", "teller panics", "teller ends its goroutine", "torn message", "forged message", "damaged key",
	"client without timeouts", "slow hook", "hook panics", "hook ends its goroutine",
}

func TestASeedIsTheSameRunNearlyEveryTime(t *testing.T) {
	if race.Enabled {
		t.Skip("whether a seed repeats does not depend on the race detector")
	}
	stage.Repeats(t, []uint64{3, 9}, func(t *testing.T, seed, other uint64) (uint64, int) {
		plan := planOf(seed)
		plan.Seed += other
		plan.Length = 6 * time.Minute
		o := run(t, plan)
		return o.Digest, o.Requests
	})
}

func TestInCalmWeatherEveryCallEndsWellAndNoWantedLockIsIdle(t *testing.T) {
	plan := planOf(1)
	plan.Calm = true
	if race.Enabled {
		plan.Length = 2 * time.Minute
	}
	o := run(t, plan)
	for _, v := range o.Violations[:min(len(o.Violations), 3)] {
		t.Error(v)
	}
	if t.Failed() {
		t.Log(o.Tail)
	}
	if o.Calm == 0 || o.Idle > 50*time.Millisecond {
		t.Errorf("%d grants; idle for %v", o.Calm, o.Idle)
	}
	t.Log(o.Stats)
}
