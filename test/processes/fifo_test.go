package processes

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/workers"
)

// The server's own journal of its queue judges the order. A witness inside the lock judges
// overlaps.
func TestSixtyFourWaitersInFourProcessesAreServedInTheOrderOfTheirArrival(t *testing.T) {
	const processes, waiters, rounds, name = 4, 16, 20_000, "x"
	t.Parallel()
	machine.Lock()
	defer machine.Unlock()
	dir := t.TempDir()
	s := newStage(t, workers.JournalArgs(dir)...)

	// The test holds the lock until all are in line.
	locker := fairlock.New(s.rdb)
	defer locker.Close()
	lease, err := locker.Lock(context.Background(), name)
	s.must(err)
	var all []*workers.Worker
	var loops []*workers.Call
	for i := range processes {
		w := s.worker(fmt.Sprint("process ", i), usualLease)
		all = append(all, w)
		loops = append(loops, w.Loop(name, "", waiters, rounds/processes, true))
	}
	s.inLine(name, processes*waiters)
	began := time.Now()
	s.must(lease.Unlock(context.Background()))
	var turns []workers.Turn
	for _, l := range loops {
		// An overlap that the witness saw would arrive as Failed.
		turns = append(turns, l.AwaitWithin(3*workers.Patience, workers.Done).Turns...)
	}
	took := time.Since(began)
	for _, w := range all {
		w.Quit()
	}
	s.must(locker.Close())
	s.cleared()

	if n, err := s.rdb.Get(context.Background(), workers.WitnessKeys(name)[2]).Int(); n != rounds || len(turns) != rounds {
		t.Fatalf("%d turns, %d of them witnessed, %v", len(turns), n, err)
	}
	v := workers.ReadJournal(t, dir).Judge(name, func(string) bool { return true })
	if n := len(v.Inversions); n > 0 {
		t.Errorf("%d inversions, the first: %s", n, v.Inversions[0])
	}
	if v.Queued < rounds*9/10 {
		t.Errorf("only %d grants were to somebody in line", v.Queued)
	}
	if len(v.Waiting) > 0 {
		t.Errorf("still in line: %v", v.Waiting)
	}
	heldAsGranted(t, v.Grants[1:], turns)
	p50, p99 := handOvers(turns)
	t.Logf("%d grants, %d inversions, 0 overlaps, %.0f grants/s, hand-over p50 %v p99 %v",
		rounds, len(v.Inversions), rounds/took.Seconds(), p50, p99)
}

// heldAsGranted compares the server's grants, in their order, with what the processes had. It sorts
// turns by token.
func heldAsGranted(t *testing.T, grants []workers.Grant, turns []workers.Turn) {
	t.Helper()
	slices.SortFunc(turns, func(a, b workers.Turn) int { return int(a.Token - b.Token) })
	if len(grants) != len(turns) {
		t.Fatalf("%d grants and %d turns", len(grants), len(turns))
	}
	for i, turn := range turns {
		// A turn of a run has one of the tokens just before the record's.
		if of := grants[i].Token - turn.Token; grants[i].Owner != turn.Owner || of < 0 || of > lua.MaxRun {
			t.Fatalf("grant %d was %+v, and by its token it was %+v", i, grants[i], turn)
		}
	}
}

// handOvers returns how long it took from each Unlock call to the return of the next Lock. That
// Lock is mostly in another process, so the times are those of the shared wall clock. turns must be
// in order.
func handOvers(turns []workers.Turn) (p50, p99 time.Duration) {
	var all []time.Duration
	for i, turn := range turns[1:] {
		all = append(all, turn.Taken.Sub(turns[i].Freed))
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100]
}
