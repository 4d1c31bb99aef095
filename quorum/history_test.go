package quorum

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// These are histories that other locks of a majority are known for.

// fence is what a lock protects: it refuses a token that is smaller than one that it has seen.
type fence struct {
	mu      sync.Mutex // guards largest
	largest int64
}

func (f *fence) write(token int64) (accepted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if token < f.largest {
		return false
	}
	f.largest = token
	return true
}

// everywhere waits until a lease stands at the first n nodes.
func (w *world) everywhere(lease *Lease, n int) {
	w.Helper()
	w.until("the holder has it at its nodes", func() bool {
		for _, rdb := range w.direct[:n] {
			r := rdb.HGetAll(w.Context(), "quorum:lock:{"+lease.Name()+"}").Val()
			if r["decided"] != "1" || !strings.HasPrefix(r["ticket"], lease.Owner()+":") {
				return false
			}
		}
		return true
	})
}

// Kleppmann: a client holds the lock at a majority. The clock of one of these nodes jumps, the node
// drops the lock, and another client has it at a majority, too.
func TestAHolderWhoseLockOneNodeDropsAsItsClockJumpsStaysTheOnlyOneAndWinsTheNodeBack(t *testing.T) {
	w := realNodes(t, 5)
	a, b := w.locker(WithLease(3*time.Second)), w.locker(WithLease(3*time.Second))
	lease := w.has(a, "x")
	w.everywhere(lease, 5)
	for _, i := range []int{2, 4} { // a minority of the nodes breaks its promise
		w.must(w.direct[i].Del(w.Context(), "quorum:lock:{x}").Err())
		w.refused(w.Context(), b)
	}
	next := w.queues(b, "x")
	w.must(w.direct[3].Del(w.Context(), "quorum:lock:{x}").Err())
	w.everywhere(lease, 5)
	w.must(lease.Err())
	if len(next) > 0 {
		t.Error("another client has it, too")
	}
	w.unlock(lease)
	second := w.gets(next)
	if second.Token() <= lease.Token() {
		t.Errorf("token %d after %d", second.Token(), lease.Token())
	}
	w.unlock(second)
	w.nothing()
}

// Kleppmann: a client has the lock, stands still for longer than its lease, and goes on to write.
func TestAClientThatGoesOnAfterItsLeaseIsRefusedByItsToken(t *testing.T) {
	w := realNodes(t, 3)
	var f fence
	paused, other := w.locker(), w.locker()
	lease := w.has(paused, "x", LeaseFor(brief))
	next := w.has(other, "x") // when the lease of the one who stands still has ended
	w.is(lease.Err(), ErrLost)
	if !f.write(next.Token()) {
		t.Error("the holder's write was refused")
	}
	if f.write(lease.Token()) {
		t.Error("the write of one who does not hold it any more was accepted")
	}
	if !f.write(next.Token()) {
		t.Error("the holder's second write was refused")
	}
	w.is(lease.Unlock(context.Background()), ErrLost)
	w.must(next.Err())
	w.unlock(next)
}

// redsync's issue 186: a client has the lock at exactly a majority. One of these nodes restarts and
// is empty. With the node that the client does not have, that makes a majority for another client.
func TestAHolderOfExactlyAMajorityIsNotRobbedByARestart(t *testing.T) {
	for what, comesBack := range comebacks {
		t.Run(what, func(t *testing.T) {
			w := realNodes(t, 3, "--appendonly", "yes", "--appendfsync", "always")
			const span = 15 * time.Second // of which the restart, or a busy machine, may take some
			a, proxies := w.through(WithLease(span))
			b := w.locker(WithLease(span))
			w.unlock(w.has(b, "x"))
			w.until("nobody had it yesterday", func() bool { return w.direct[1].Exists(w.Context(), "quorum:lock:{x}").Val() == 0 })
			yesterday := w.copyOf(1)
			proxies[2].Refuse(true)
			proxies[2].CutAll()
			lease := w.has(a, "x")
			w.everywhere(lease, 2)
			w.servers[1].Kill()
			comesBack(w, 1, yesterday)
			next := w.queues(b, "x") // it has the vote of the third node
			w.everywhere(lease, 2)
			w.must(lease.Err())
			if len(next) > 0 {
				t.Error("another client has it, too")
			}
			w.unlock(lease)
			second := w.gets(next)
			if second.Token() <= lease.Token() {
				t.Errorf("token %d after %d", second.Token(), lease.Token())
			}
			w.unlock(second)
		})
	}
}

// comebacks are the ways in which a killed node comes back.
var comebacks = map[string]func(w *world, i int, yesterday string){
	"empty": func(w *world, i int, _ string) {
		w.replace(i, "")
	},
	"with its AOF": func(w *world, i int, _ string) {
		w.servers[i].Restart()
	},
	"with yesterday's AOF": func(w *world, i int, yesterday string) {
		w.replace(i, yesterday)
	},
}

// copyOf is a copy of what a node has on its disk.
func (w *world) copyOf(i int) string {
	w.Helper()
	to := filepath.Join(w.TempDir(), "copy")
	w.must(os.CopyFS(to, os.DirFS(w.dirs[i])))
	return to
}

// replace starts a killed node with that data, or with none.
func (w *world) replace(i int, data string) {
	w.Helper()
	for _, part := range []string{"appendonlydir", "dump.rdb"} {
		w.must(os.RemoveAll(filepath.Join(w.dirs[i], part)))
	}
	if data != "" {
		w.must(os.CopyFS(w.dirs[i], os.DirFS(data)))
	}
	w.servers[i].Restart()
}

func TestAllNodesThatComeBackWithYesterdaysDataGiveNothingTwiceAndNoTokenOfYesterday(t *testing.T) {
	for what, args := range map[string][]string{
		"the append-only file": {"--appendonly", "yes", "--appendfsync", "always"},
		"the snapshot":         {"--appendonly", "no"},
	} {
		t.Run(what, func(t *testing.T) {
			w := realNodes(t, 3, args...)
			const longest = 4 * time.Second
			for _, rdb := range w.direct {
				w.must(rdb.FlushAll(t.Context()).Err())
			}
			locker := func() *Locker { return w.locker(WithLease(longest), WithLongestLease(longest)) }
			a, b, c := locker(), locker(), locker()
			w.must(a.Init(t.Context()))
			old := w.has(a, "x") // yesterday's holder, and yesterday's waiter
			waited := w.queues(b, "x")
			var yesterday []string
			for i, rdb := range w.direct {
				if args[1] == "no" {
					w.must(rdb.Save(t.Context()).Err())
				}
				yesterday = append(yesterday, w.copyOf(i))
			}
			w.unlock(old)
			w.unlock(w.gets(waited))

			lease := w.has(c, "x")
			next := w.queues(a, "x")
			for i := range w.servers {
				w.servers[i].Kill()
			}
			for i := range w.servers {
				w.replace(i, yesterday[i])
			}
			second := w.gets(next)
			if err := lease.Err(); err == nil {
				t.Error("two have it")
			} else {
				w.is(err, ErrLost)
			}
			if second.Token() <= lease.Token() {
				t.Errorf("token %d after %d", second.Token(), lease.Token())
			}
			w.unlock(second)
			w.unlock(w.has(b, "x")) // yesterday's tickets keep nobody from it
		})
	}
}

func TestForcedHoldersHearOfItAndTheLineGoesOnInItsOrderWithLargerTokens(t *testing.T) {
	w := realNodes(t, 3)
	var f fence
	lockers := []*Locker{w.locker(), w.locker(), w.locker()}
	lease := w.has(lockers[0], "x")
	var waiting []<-chan outcome
	for i := range 12 {
		waiting = append(waiting, w.queues(lockers[i%3], "x", Note(strconv.Itoa(i))))
	}
	state := w.looks(lockers[0])
	if len(state.Waiters) != len(waiting) {
		t.Fatalf("%d wait", len(state.Waiters))
	}
	// A place that a node has yet to be told may be shown out of its order.
	sixth := slices.IndexFunc(state.Waiters, func(next Waiter) bool { return next.Note == "5" })
	w.must(lockers[1].Evict(w.Context(), "x", state.Waiters[sixth].ID))
	w.is(w.ends(waiting[5]).err, ErrEvicted)
	waiting = append(waiting[:5], waiting[6:]...)
	for i, next := range waiting {
		w.must(lockers[i%3].ForceUnlock(w.Context(), "x"))
		select {
		case <-lease.Done():
		case <-time.After(patience):
			t.Fatal("a forced holder does not hear of it")
		}
		had := w.gets(next)
		if had.Token() <= lease.Token() || !f.write(had.Token()) || f.write(lease.Token()) {
			t.Errorf("token %d after %d", had.Token(), lease.Token())
		}
		w.is(lease.Unlock(context.Background()), ErrLost)
		lease = had
	}
	w.unlock(lease)
	w.nothing()
}
