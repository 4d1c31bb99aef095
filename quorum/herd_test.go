package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

const herd = 64

// placesOf are the places at which a majority of the nodes has the tickets of a lock, by note.
func (w *world) placesOf(name string) map[string]float64 {
	w.Helper()
	counts := make(map[string]map[float64]int)
	for _, rdb := range w.direct {
		line, err := rdb.ZRangeWithScores(w.Context(), "quorum:queue:{"+name+"}", 0, -1).Result()
		w.must(err)
		for _, z := range line {
			ticket := z.Member.(string)
			if counts[ticket] == nil {
				counts[ticket] = make(map[float64]int)
			}
			counts[ticket][z.Score]++
		}
	}
	places := make(map[string]float64)
	for ticket, of := range counts {
		for at, n := range of {
			if n > len(w.direct)/2 {
				places[noteOf(ticket)] = at
			}
		}
	}
	return places
}

// noteOf is the last part of a ticket.
func noteOf(ticket string) string {
	at := len(ticket)
	for at > 0 && ticket[at-1] != ':' {
		at--
	}
	return ticket[at:]
}

func TestAHerdOnAFreeLockIsServedInTheOrderOfItsPlacesAndEachWaitsForOneTurnOfTheOthers(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n, " nodes"), func(t *testing.T) {
			w := realNodes(t, n)
			lockers := []*Locker{w.locker(), w.locker(), w.locker(), w.locker()}
			type served struct {
				note  string
				token int64
			}
			var all sync.WaitGroup
			var mu sync.Mutex // guards order
			var order []served
			var places map[string]float64
			start := make(chan struct{})
			for i := range herd {
				all.Go(func() {
					note := fmt.Sprint("caller-", i)
					<-start
					lease, err := lockers[i%4].Lock(t.Context(), "x", Note(note))
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					order = append(order, served{note, lease.Token()})
					first := len(order) == 1
					mu.Unlock()
					if first { // the votes of a free lock are given before any place is known
						w.until("all others stand in line", func() bool {
							places = w.placesOf("x")
							return len(places) == herd || places[note] == 0 && len(places) == herd-1
						})
					}
					if err := lease.Unlock(context.Background()); err != nil {
						t.Error(err)
					}
				})
			}
			close(start)
			all.Wait()
			if len(order) != herd {
				t.Fatalf("%d turns", len(order))
			}
			if !slices.IsSortedFunc(order, func(a, b served) int { return cmp.Compare(a.token, b.token) }) {
				t.Errorf("the tokens do not grow: %v", order)
			}
			if !slices.IsSortedFunc(order[1:], func(a, b served) int { return cmp.Compare(places[a.note], places[b.note]) }) {
				t.Errorf("they were not served in the order of their places: %v\n%v", order, places)
			}
			w.nothing()
		})
	}
}

func TestProcessesThatWaitedOnceLeaveNothingInTheLineOfABusyLock(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		lease := h.has(h.locker(), "x")
		for range 10 {
			l := h.locker()
			if _, err := l.Lock(h.Context(), "x", WaitAtMost(time.Second)); !errors.Is(err, ErrHeld) {
				h.Errorf("it says %v", err)
			}
			if err := l.Close(); err != nil {
				h.Error(err)
			}
			time.Sleep(3 * time.Second) // for so long a client may be unheard
		}
		for i, node := range h.nodes {
			all, err := node.ZMembers("quorum:waiters:{x}")
			if err != nil || len(all) > 3 { // the holder, and who came last
				h.Errorf("node %d: %v %v", i+1, all, err)
			}
		}
		if err := lease.Unlock(context.Background()); err != nil {
			h.Error(err)
		}
	})
}

func TestALockerKeepsNothingOfLocksThatNobodyWants(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		for i := range 100 {
			if err := h.has(l, fmt.Sprint(i)).Unlock(context.Background()); err != nil {
				h.Fatal(err)
			}
		}
		time.Sleep(beatEvery)
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.lines) > 0 || len(l.calls) > 0 {
			h.Errorf("after a while it keeps %d lines and %d calls", len(l.lines), len(l.calls))
		}
	})
}
