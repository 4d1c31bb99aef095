package processes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/reentrant"
	"github.com/fairlock/locks/test/workers"
)

// starving is how long a call must wait to come before all later calls of its process.
const starving = time.Second

// little is for how long a busy machine may keep a call from beginning its wait.
const little = 300 * time.Millisecond

func (s *stage) plainWorker(name string, lease time.Duration) *workers.Worker {
	s.t.Helper()
	return workers.StartPlain(s.t, name, s.server.Addr(), lease)
}

// listen returns when that many processes listen to the releases of a plain lock, because they have
// a waiting call.
func (s *stage) listen(name string, processes int64) {
	s.t.Helper()
	channel := "fairlock:plain:freed:{" + name + "}"
	s.until("so many processes listen", func() bool {
		return s.rdb.PubSubNumSub(context.Background(), channel).Val()[channel] == processes
	})
}

// commands returns how often each command was executed so far, for clients or in scripts, except
// INFO itself.
func (s *stage) commands() map[string]int {
	s.t.Helper()
	info, err := s.rdb.Info(context.Background(), "commandstats").Result()
	s.must(err)
	count := make(map[string]int)
	for line := range strings.FieldsSeq(info) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		calls, _, ok := strings.Cut(rest, ",")
		if n, err := strconv.Atoi(calls); ok && err == nil && name != "info" {
			count[name] = n
		}
	}
	return count
}

// scripts returns how many scripts were run for clients.
func (s *stage) scripts() int {
	s.t.Helper()
	count := s.commands()
	return count["evalsha"] + count["eval"]
}

// subscribers returns how many connections have a subscription.
func (s *stage) subscribers() int {
	s.t.Helper()
	list, err := s.rdb.Do(context.Background(), "client", "list", "type", "pubsub").Text()
	s.must(err)
	return strings.Count(list, "\n")
}

// plainCleared is cleared for plain locks.
func (s *stage) plainCleared() {
	s.t.Helper()
	s.silent()
	keys, err := s.rdb.Keys(context.Background(), "fairlock:plain:*").Result()
	s.must(err)
	for _, key := range keys {
		ttl := s.rdb.PTTL(context.Background(), key).Val()
		// A plain lock's set has no marks but those of retired tickets.
		marks := strings.HasPrefix(key, "fairlock:plain:waiters:") && ttl > 0 && ttl <= time.Minute
		if !marks && !strings.HasPrefix(key, "fairlock:plain:token:") {
			s.t.Errorf("left behind: %s for %v", key, ttl)
		}
	}
}

// contest is the outcome of many calls for one plain lock by several processes. In each goroutine
// one call follows the other.
type contest struct {
	turns     []workers.Turn   // in the order of their tokens
	processes [][]workers.Turn // the same, by process
	requests  int              // of the locks, not of the witness
	took      time.Duration
}

// compete has each process call for the lock in that many goroutines, each for that many rounds. It
// begins when nobody asks for the lock any more.
func (s *stage) compete(name string, processes, callers, rounds int, lasting time.Duration) contest {
	s.t.Helper()
	locker := reentrant.New(s.rdb)
	defer locker.Close()
	lease, err := locker.Lock(context.Background(), name)
	s.must(err)
	var all []*workers.Worker
	calls := make([][]*workers.Call, processes)
	for i := range processes {
		all = append(all, s.plainWorker(fmt.Sprint("process ", i), usualLease))
		for range callers {
			calls[i] = append(calls[i], all[i].Labour(name, rounds, lasting))
		}
	}
	s.listen(name, int64(processes))
	// Calls of one process share requests, so their number says nothing. Soon after the last
	// request nearly all wait.
	count, since := s.scripts(), time.Now()
	s.until("everybody has tried", func() bool {
		if now := s.scripts(); now != count {
			count, since = now, time.Now()
		}
		return time.Since(since) > time.Second/2
	})

	before, began := s.scripts(), time.Now()
	s.must(lease.Unlock(context.Background()))
	c := contest{processes: make([][]workers.Turn, processes)}
	for i := range calls {
		for _, call := range calls[i] {
			// An overlap that the witness saw would arrive as Failed.
			c.processes[i] = append(c.processes[i], call.Await(workers.Done).Turns...)
		}
		c.turns = append(c.turns, c.processes[i]...)
	}
	slices.SortFunc(c.turns, func(a, b workers.Turn) int { return int(a.Token - b.Token) })
	c.took = time.Since(began)
	c.requests = s.scripts() - before - len(c.turns) // the witness runs a script too
	for _, w := range all {
		w.Quit()
	}
	s.must(locker.Close())
	s.plainCleared()

	total := processes * callers * rounds
	if n, err := s.rdb.Get(context.Background(), workers.WitnessKeys(name)[2]).Int(); n != total || len(c.turns) != total {
		s.t.Fatalf("%d turns, %d of them witnessed, %v", len(c.turns), n, err)
	}
	return c
}

// patience says how the calls waited: the longest wait, and how many calls waited for too long.
// overtakers is the largest number of later calls of the same process that came before one of
// these. A call begins its wait a little after the worker reads the clock.
func (c contest) patience() (longest time.Duration, starved, overtakers int) {
	for _, process := range c.processes {
		for _, turn := range process {
			waited := turn.Taken.Sub(turn.Asked)
			longest = max(longest, waited)
			if waited <= starving+little {
				continue
			}
			starved++
			n := 0
			for _, other := range process {
				if other.Token < turn.Token && other.Asked.After(turn.Asked.Add(starving+little)) {
					n++
				}
			}
			overtakers = max(overtakers, n)
		}
	}
	return longest, starved, overtakers
}

// The server's own journal judges order and overlaps. A witness inside the lock, and the clock that
// all processes share, judge overlaps too.
func TestSixtyFourCallersInFourProcessesHaveAPlainLockOneAtATime(t *testing.T) {
	const processes, callers, rounds, name = 4, 16, 40, "x"
	t.Parallel()
	machine.Lock()
	defer machine.Unlock()
	dir := t.TempDir()
	s := newStage(t, workers.JournalArgs(dir)...)
	c := s.compete(name, processes, callers, rounds, 0)

	v := workers.ReadJournal(t, dir).JudgePlain(name)
	if len(v.Overlaps) > 0 {
		t.Errorf("%d overlaps, the first: %s", len(v.Overlaps), v.Overlaps[0])
	}
	for i, grant := range v.Grants[1:] {
		if before := v.Grants[i]; grant.Token <= before.Token {
			t.Errorf("token %d after %d", grant.Token, before.Token)
		}
	}
	turnsOfGrants(t, v.Grants[1:], c.turns) // the first grant was the test's own
	for i, turn := range c.turns[1:] {
		if before := c.turns[i]; turn.Taken.Before(before.Freed) {
			t.Errorf("token %d was had %v before token %d was unlocked", turn.Token, before.Freed.Sub(turn.Taken), before.Token)
		}
	}
	longest, starved, overtakers := c.patience()
	if overtakers > 1 { // a try may have been on its way
		t.Errorf("%d later calls of the same process came before one that had waited for %v", overtakers, starving+little)
	}
	total := float64(len(c.turns))
	p50, p99 := handOvers(c.turns)
	t.Logf("%.0f grants, 0 overlaps, %.0f grants/s, %.2f requests each, hand-over p50 %v p99 %v, longest wait %v, %d over %v",
		total, total/c.took.Seconds(), float64(c.requests)/total, p50, p99, longest, starved, starving+little)
}

// turnsOfGrants compares the server's grants, in their order, with the turns that the processes
// had: each turn is on a grant to its own process, and no two have one token. It sorts the turns.
func turnsOfGrants(t *testing.T, grants []workers.Grant, turns []workers.Turn) {
	t.Helper()
	slices.SortFunc(turns, func(a, b workers.Turn) int { return int(a.Token - b.Token) })
	used, last := 0, int64(0)
	for _, turn := range turns {
		client, _, _ := strings.Cut(turn.Owner, ":")
		for used == 0 || used <= len(grants) && grants[used-1].Token < turn.Token {
			used++
		}
		if used > len(grants) || !strings.HasPrefix(grants[used-1].Owner, client+":") ||
			grants[used-1].Token-turn.Token > rules.PlainTurns || turn.Token == last {
			t.Fatalf("after token %d there was %+v, which is on no grant of its process", last, turn)
		}
		last = turn.Token
	}
	if used != len(grants) {
		t.Fatalf("%d grants, and turns on %d", len(grants), used)
	}
	t.Logf("%d turns on %d grants", len(turns), len(grants))
}

// The turns are so long that all calls wait for too long. And a caller that has just unlocked asks
// again at once.
func TestNoLaterCallOfItsProcessHasAPlainLockBeforeOneThatHasWaitedForASecond(t *testing.T) {
	const processes, callers, rounds, lasting = 4, 16, 4, 20 * time.Millisecond
	t.Parallel()
	machine.Lock()
	defer machine.Unlock()
	s := newStage(t)
	c := s.compete("x", processes, callers, rounds, lasting)
	longest, starved, overtakers := c.patience()
	if overtakers > 1 { // a try may have been on its way
		t.Errorf("%d later calls of the same process came before one that had waited for %v", overtakers, starving+little)
	}
	if starved < callers {
		t.Errorf("only %d calls waited for longer than %v: that shows nothing", starved, starving+little)
	}
	total := float64(len(c.turns))
	t.Logf("%d of %.0f waits over %v, the longest %v, at most %d later calls before any of them, %.2f requests each",
		starved, total, starving+little, longest, overtakers, float64(c.requests)/total)
}

func TestAPlainLockIsNotGivenToALaterCallOfAProcessWhereOneHasWaitedForASecond(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ctx := context.Background()
	holder := s.plainWorker("holder", usualLease)
	before := holder.Lock("x", "holder").Await(workers.Granted)
	locker := reentrant.New(s.rdb)
	defer locker.Close()

	type grant struct {
		who   string
		lease *fairlock.Lease
		err   error
	}
	grants := make(chan grant, 2)
	ask := func(who string) {
		queued := make(chan int, 1)
		go func() {
			lease, err := locker.Lock(ctx, "x", fairlock.OnQueued(func(at int) { queued <- at }))
			grants <- grant{who, lease, err}
		}()
		select {
		case <-queued:
		case g := <-grants:
			t.Fatalf("%s did not wait: token %d, %v", g.who, g.lease.Token(), g.err)
		}
	}
	ask("early")
	waits := time.Now() // the call may have asked later than this
	s.listen("x", 1)
	s.until("one has waited for too long", func() bool { return time.Since(waits) > starving })
	// The lock is free, and no waiter was told.
	holder.Kill()
	s.must(s.rdb.Del(ctx, "fairlock:plain:lock:{x}").Err())
	ask("late")
	if lease, err := locker.TryLock(ctx, "x"); !errors.Is(err, fairlock.ErrHeld) {
		t.Fatalf("TryLock: token %d, %v", lease.Token(), err)
	}
	s.must(s.rdb.Publish(ctx, "fairlock:plain:freed:{x}", "").Err()) // now the waiters are told
	token := before.Token
	for _, who := range []string{"early", "late"} {
		g := <-grants
		s.must(g.err)
		if g.who != who || g.lease.Token() <= token {
			t.Errorf("%s has token %d after %d, and it was the turn of %s", g.who, g.lease.Token(), token, who)
		}
		token = g.lease.Token()
		s.must(g.lease.Unlock(ctx))
	}
}

func TestTheNextWaiterHasAPlainLockWhenTheLeaseOfAKilledHolderEnds(t *testing.T) {
	t.Parallel()
	machine.RLock()
	defer machine.RUnlock()
	for _, lease := range []time.Duration{600 * time.Millisecond, 2 * time.Second} {
		t.Run(lease.String(), func(t *testing.T) {
			s := newStage(t)
			next := s.plainWorker("next", usualLease)
			run := 0
			within(t, lease+100*time.Millisecond, func() time.Duration {
				return s.killHolders(&run, func(name string) kill {
					worker := func() *workers.Worker { return s.plainWorker("holder", lease) }
					waits := func() *workers.Call {
						call := next.Lock(name, "next")
						s.listen(name, 1)
						return call
					}
					return kill{"fairlock:plain:lock:{" + name + "}", worker, waits, next}
				})
			})
			next.Quit()
			s.plainCleared()
		})
	}
}

func TestOneConnectionListensForAllWaitersOfAPlainLocker(t *testing.T) {
	const locks = 50
	t.Parallel()
	s := newStage(t)
	ctx := context.Background()
	holder := s.plainWorker("holder", usualLease)
	var held []*workers.Call
	for i := range locks {
		c := holder.Lock(fmt.Sprint("x", i), "holder")
		c.Await(workers.Granted)
		held = append(held, c)
	}
	if n := s.subscribers(); n != 0 {
		t.Errorf("%d connections subscribe and nobody has waited", n)
	}
	locker := reentrant.New(s.rdb)
	defer locker.Close()
	granted := make(chan *fairlock.Lease)
	for i := range locks {
		go func() {
			lease, err := locker.Lock(ctx, fmt.Sprint("x", i))
			if err != nil {
				t.Error(err)
			}
			granted <- lease
		}()
	}
	for i := range locks {
		s.listen(fmt.Sprint("x", i), 1)
	}
	if n := s.subscribers(); n != 1 {
		t.Errorf("%d connections subscribe to the releases of %d locks", n, locks)
	}
	for _, c := range held {
		holder.Unlock(c).Await(workers.Unlocked)
		lease := <-granted
		if n := s.subscribers(); n != 1 {
			t.Errorf("%d connections subscribe", n)
		}
		if err := lease.Unlock(ctx); err != nil {
			t.Error(err)
		}
	}
	s.must(locker.Close())
	s.silent()
	s.until("no connection subscribes", func() bool { return s.subscribers() == 0 })
	holder.Quit()
	s.plainCleared()
}

func TestATryForAPlainLockIsRefusedWithoutARequestIfThisProcessHasItAndElseWithOne(t *testing.T) {
	const tries = 1000
	t.Parallel()
	s := newStage(t)
	ctx := context.Background()
	elsewhere := s.plainWorker("elsewhere", usualLease)
	there := elsewhere.LockAs(saga, "there", "")
	there.Await(workers.Granted)
	locker := reentrant.New(s.rdb)
	defer locker.Close()
	here, err := locker.Lock(ctx, "here", fairlock.WithOwner(saga))
	s.must(err)
	refused := func(name string, options ...fairlock.LockOption) {
		t.Helper()
		lease, err := locker.TryLock(ctx, name, options...)
		held, ok := errors.AsType[*fairlock.HeldError](err)
		if !ok || held.Owner != saga || held.Remaining <= 0 || held.Remaining > usualLease {
			t.Fatalf("TryLock of %s: token %d, %v", name, lease.Token(), err)
		}
	}
	before := s.commands()
	for range tries / 2 {
		refused("here")
		refused("here", fairlock.WithOwner("saga-8"))
	}
	if after := s.commands(); !maps.Equal(before, after) {
		t.Errorf("%d refusals sent requests: %v before, %v after", tries, before, after)
	}
	before = s.commands()
	refused("there")
	after := s.commands()
	if after["evalsha"] != before["evalsha"]+1 {
		t.Errorf("a refusal sent %d requests", after["evalsha"]-before["evalsha"])
	}
	// The other requests that a client may send.
	for _, other := range []string{"eval", "publish", "subscribe", "hello"} {
		if after[other] != before[other] {
			t.Errorf("a refusal sent %s", other)
		}
	}
	s.must(here.Unlock(ctx))
	elsewhere.Unlock(there).Await(workers.Unlocked)
	s.must(locker.Close())
	elsewhere.Quit()
	s.plainCleared()
}
