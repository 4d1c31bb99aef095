package workloads

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fairlock/locks/bench/peers"
)

// Attempt is one call that waited for the lock. Times are in Unix ns by the clock of one machine; 0
// means that it has not happened.
type Attempt struct {
	Waiter   int   // the number of the goroutine
	Began    int64 // a time before the request was sent
	Queued   int64 // a time when the request had certainly arrived; 0: the peer does not tell
	Granted  int64
	Released int64 // when Unlock was called
	Place    int64 // in the peer's own order; 0: the peer has none
}

// surely is the time after a call by which its request has arrived, for peers that do not tell.
const surely = 100 * time.Millisecond

// overtaken counts the grants that were certainly out of order: another call was still waiting
// whose request had arrived before this call's request was sent. If the peer has an order of its
// own, that order decides instead.
func overtaken(attempts []Attempt) (out, of int) {
	attempts = slices.Clone(attempts)
	slices.SortFunc(attempts, func(a, b Attempt) int { return cmp.Compare(b.grantedOrNever(), a.grantedOrNever()) })
	earliest, place := int64(math.MaxInt64), int64(math.MaxInt64) // of the attempts that are granted later, or never
	for _, a := range attempts {
		if a.Granted != 0 {
			of++
			if a.Place != 0 && place < a.Place || a.Place == 0 && earliest <= a.Began {
				out++
			}
		}
		arrived := a.Queued
		if arrived == 0 {
			arrived = a.Began + int64(surely)
		}
		earliest = min(earliest, arrived)
		if a.Place != 0 {
			place = min(place, a.Place)
		}
	}
	return out, of
}

func (a Attempt) grantedOrNever() int64 {
	if a.Granted == 0 {
		return math.MaxInt64
	}
	return a.Granted
}

// jain returns Jain's index of how evenly the grants fell to the waiters: 1 is evenly, 1/n means
// all to one waiter. It takes whole rounds, of as many grants as there are waiters, because in the
// middle of a round the grants cannot be even. It returns false if there was no whole round.
func jain(attempts []Attempt, waiters int) (float64, bool) {
	granted := slices.DeleteFunc(slices.Clone(attempts), func(a Attempt) bool { return a.Granted == 0 })
	slices.SortFunc(granted, func(a, b Attempt) int { return cmp.Compare(a.Granted, b.Granted) })
	rounds := len(granted) / waiters
	if rounds == 0 {
		return 0, false
	}
	shares := map[int]float64{}
	for _, a := range granted[:rounds*waiters] {
		shares[a.Waiter]++
	}
	var sum, squares float64
	for _, n := range shares {
		sum += n
		squares += n * n
	}
	return sum * sum / (float64(waiters) * squares), true
}

// place returns the lock's place in its peer's own order, or 0.
func place(lock peers.Lock) int64 {
	if p, ok := lock.(peers.Placed); ok {
		return p.Place()
	}
	return 0
}
