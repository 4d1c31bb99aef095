package processes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/workers"
)

// living is how many goroutines the survivors have in all.
const living = 12

// Three processes use the lock for as long as the test lasts. Others come and are killed: within
// nested calls, in line, as they come, and as they take and release. In the end those three are
// killed too.
func TestWhoeverIsKilledTheOthersGoOnAndWhenAllAreGoneNothingStays(t *testing.T) {
	const rounds, name = 21, "x"
	const lease, claim, blind = time.Second, time.Second, 3 * time.Second // of those who are killed
	const calm = 3 * time.Second                                          // a survivor may not run for a second
	t.Parallel()
	machine.Lock()
	leave := sync.OnceFunc(machine.Unlock)
	defer leave()
	dir := t.TempDir()
	s := newStage(t, workers.JournalArgs(dir)...)
	var survivors []*workers.Worker
	var loops []*workers.Call
	for i := range 3 {
		w := s.worker(fmt.Sprint("survivor ", i), calm)
		survivors = append(survivors, w)
		loops = append(loops, w.Loop(name, "survivor", living/3, 0, true))
	}
	var stalls []time.Duration
	for round := range rounds {
		killed := s.kill(name, round, lease)
		stalls = append(stalls, goOn(survivors, killed))
		for _, l := range loops {
			l.Quiet() // an overlap or a loss would arrive as Failed
		}
	}
	slices.Sort(stalls)
	t.Logf("%d killed; after that the others needed %v in the middle and %v at most to go on", rounds, stalls[rounds/2], stalls[rounds-1])
	// A victim that was killed while it held the lock costs its lease. A victim that was killed in
	// its first moments in line still counts as blind, and is granted the lock unheard. The extra
	// second is for the turns themselves.
	if most := lease + blind + claim + time.Second; stalls[rounds-1] > most {
		t.Errorf("the others stood still for %v, longer than %v", stalls[rounds-1], most)
	}

	noted := func(ticket string) bool { return strings.HasSuffix(ticket, ":survivor") }
	v := workers.ReadJournal(t, dir).Judge(name, noted)
	t.Logf("%d grants to the survivors, %d inversions among them", len(v.Grants), len(v.Inversions))
	if len(v.Inversions) > 0 {
		t.Errorf("%d inversions, the first: %s", len(v.Inversions), v.Inversions[0])
	}

	for _, w := range survivors {
		w.Kill()
	}
	s.silent()
	leave()
	s.expires(name, calm)
}

// kill starts a process and has it use the lock in one of four ways. In the middle of that it kills
// the process. It returns the time of the kill.
func (s *stage) kill(name string, round int, lease time.Duration) time.Time {
	s.t.Helper()
	victim := s.worker(fmt.Sprint("victim ", round), lease)
	var longest time.Duration
	switch round % 7 {
	case 0, 3: // within three nested calls
		nested := victim.Nest(name, "victim", 3)
		for depth := 1; depth <= 3; depth++ {
			if e := nested.Await(workers.Granted); e.Depth != depth {
				s.t.Fatalf("depth %d, not %d", e.Depth, depth)
			}
		}
		longest = 300 * time.Millisecond // before and after the first renewals
	case 1, 4: // most of them wait
		victim.Loop(name, "victim", 50, 0, false)
		longest = 100 * time.Millisecond
	case 2, 5: // in turns, without a pause
		victim.Loop(name, "victim", 2, 0, false)
		victim.Reach(1).Await(workers.Reached)
		longest = 20 * time.Millisecond
	case 6: // just arrived: the server does not see their subscription yet
		victim.Loop(name, "victim", 20, 0, false)
		s.until("one more is in line than there are survivors", func() bool {
			return s.rdb.LLen(context.Background(), "fairlock:queue:{"+name+"}").Val() > living
		})
		longest = time.Millisecond
	}
	time.Sleep(rand.N(longest)) // at no particular moment
	now := time.Now()
	victim.Kill()
	return now
}

// goOn returns how long it took from then until every survivor has had the lock 20 more times.
func goOn(survivors []*workers.Worker, from time.Time) time.Duration {
	var calls []*workers.Call
	for _, w := range survivors {
		calls = append(calls, w.Reach(20))
	}
	var last time.Time
	for _, c := range calls {
		if at := c.Await(workers.Reached).At; at.After(last) {
			last = at
		}
	}
	return last.Sub(from)
}

// expires waits until all keys but tokens have vanished by themselves. No key may outlive its
// kind's limit.
func (s *stage) expires(name string, lease time.Duration) {
	s.t.Helper()
	ctx, began := context.Background(), time.Now()
	longest := time.Duration(0)
	for key, most := range map[string]time.Duration{
		"lock": lease, "queue": 30 * time.Second, "waiters": time.Minute, "token": lua.TokenTTL + 2*lease,
	} {
		left, err := s.rdb.PTTL(ctx, "fairlock:"+key+":{"+name+"}").Result()
		s.must(err)
		if left > most || left == -1 { // -1: the key has no end
			s.t.Errorf("%s lives for another %v, longer than %v", key, left, most)
		}
		if key != "token" {
			longest = max(longest, left)
		}
	}
	if longest <= 0 {
		s.t.Error("nothing was left behind: all were killed at a moment that shows nothing")
	}
	for len(s.leftovers()) > 0 {
		if time.Since(began) > longest+3*time.Second {
			s.t.Fatalf("%v after everybody has gone: %v", time.Since(began), s.leftovers())
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.t.Logf("all keys but tokens gone after %v", time.Since(began).Round(time.Millisecond))
}
