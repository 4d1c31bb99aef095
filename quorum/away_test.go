package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/written"
)

// calls is how many scripts a node has run.
func (w *world) calls(i int) int {
	w.Helper()
	return redistest.Calls(w, w.direct[i], "evalsha")
}

func TestANodeThatRefusesToWriteIsNotAskedAsFastAsItAnswers(t *testing.T) {
	w := realNodes(t, 3)
	holder, waiter := w.locker(), w.locker()
	w.must(w.direct[2].ConfigSet(w.Context(), "maxmemory", "1").Err())
	lease := w.has(holder, "x")
	done := w.queues(waiter, "x")
	before := w.calls(2)
	time.Sleep(time.Second)
	if n := w.calls(2) - before; n > 50 {
		t.Errorf("it was asked %d times in a second", n)
	}
	w.must(w.direct[2].ConfigSet(w.Context(), "maxmemory", "0").Err())
	w.unlock(lease)
	w.unlock(w.gets(done))
}

// nonsense is a list, as a script replies, of which nothing can be made.
var nonsense = faultproxy.RewriteReply(func([]byte) []byte { return []byte("*1\r\n$3\r\nfoo\r\n") })

func TestANodeThatMakesNoSenseIsNotAskedAsFastAsItAnswers(t *testing.T) {
	w := realNodes(t, 3)
	l, proxies := w.through()
	const few = 10
	lease := w.has(w.locker(), "x")
	proxies[0].Add(faultproxy.Rule{Match: executes(enterScript), Action: nonsense})
	next := w.queues(l, "x")
	other := w.locker()
	for range 100 { // time passes
		w.unlock(w.has(other, "y"))
	}
	w.unlock(lease)
	w.unlock(w.gets(next))
	if n := proxies[0].Count(executes(enterScript)); n > few {
		t.Errorf("it was asked %d times for its vote", n)
	}

	proxies[1].Add(faultproxy.Rule{Match: executes(enterScript), Action: nonsense})
	if _, err := l.Lock(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "unexpected reply") {
		t.Errorf("where a majority makes no sense: %v", err)
	}
}

func TestANodeThatMakesNoSenseOfATokenIsNotToldItAsFastAsItAnswers(t *testing.T) {
	w := realNodes(t, 3)
	l, proxies := w.through()
	for i, p := range proxies { // it has to be told the token of its Lease
		w.must(w.direct[i].Set(t.Context(), "quorum:token:{x}", time.Now().Add(time.Minute).UnixMicro(), 0).Err())
		p.Add(faultproxy.Rule{Match: executes(renewScript), Action: nonsense})
	}
	if _, err := l.Lock(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "unexpected reply") {
		t.Errorf("it says: %v", err)
	}
	if n := proxies[1].Count(executes(renewScript)); n > 5 { // 1 or 2; on a busy machine 3
		t.Errorf("it was told %d times", n)
	}
}

func TestACallThatEndsSaysNothingOfTheNodeThatItAsked(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		h.obeys = true
		l := h.locker()
		h.has(l, "y")
		h.asksItself(l, 1)
		h.hush(1)
		for end, what := range map[error]func(context.Context) (context.Context, context.CancelFunc){
			context.Canceled: func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(10*time.Millisecond, cancel)
				return ctx, cancel
			},
			context.DeadlineExceeded: func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 10*time.Millisecond)
			},
		} {
			h.hush(2) // else the call would have the lock
			ctx, cancel := what(h.Context())
			if _, err := l.Lock(ctx, "x"); !errors.Is(err, end) {
				h.Errorf("it says %v", err)
			}
			cancel()
			if l.nodes[1].away() {
				h.Errorf("after %v the node counts as away", end)
			}
		}
	})
}

// untimely is a context whose Done panics when it is called a second time.
type untimely struct {
	context.Context
	asked *int
}

func (u untimely) Done() <-chan struct{} {
	if *u.asked++; *u.asked == 2 {
		panic("the user's own")
	}
	return u.Context.Done()
}

func TestACallWhoseContextPanicsSaysNothingOfTheNodeThatItAsked(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		h.obeys = true
		l := h.locker()
		h.has(l, "y")
		for i := range l.nodes {
			h.asksItself(l, i)
			func() {
				defer func() {
					if recover() == nil {
						h.Error("no panic")
					}
				}()
				_, _ = l.Lock(untimely{h.Context(), new(int)}, "x")
			}()
		}
		time.Sleep(time.Second)
		for i, n := range l.nodes {
			if n.away() {
				h.Errorf("node %d counts as away", i+1)
			}
		}
		h.has(l, "x")
	})
}

// Pooled connections may have died unnoticed: a firewall has dropped them.
func TestATryOutlivesConnectionsThatAreFoundBroken(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		h.obeys = true
		l := h.locker()
		h.has(l, "y")
		h.asksItself(l, 2) // not by the client that breaks
		for i := range 2 {
			h.on(l, i, enterScript, 1, 0)
			h.on(l, i, meetScript, 0, 50*time.Millisecond)
		}
		h.within("a TryLock", atMost, func() {
			if _, err := l.TryLock(h.Context(), "x"); err != nil {
				h.Error(err)
			}
		})
	})
}

func TestAHolderKeepsItsLockThoughAllPooledConnectionsDieUnnoticed(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		lease := h.has(l, "x")
		time.Sleep(2 * time.Second) // until it has a lease, and not only a claim
		for _, n := range l.nodes {
			redistest.FillPool(h, n.rdb.(*redis.Client), 20) //nolint:forcetypeassert // it is one
		}
		h.disconnects()
		time.Sleep(2 * time.Minute)
		if err := lease.Err(); err != nil {
			h.Error(err)
		}
	})
}

func TestALineThatIsFullAtOneNodeTurnsNoCallAwayWhileAConnectionIsFoundBroken(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		h.obeys = true
		l, other := h.locker(), h.locker()
		h.has(l, "y")
		for range 2 { // the second waits
			h.gives(2, other, "x")
		}
		h.asksItself(l, 1)
		h.on(l, 0, enterScript, 1, 0)
		h.on(l, 0, meetScript, 0, 50*time.Millisecond)
		h.within("a Lock", atMost, func() { h.has(l, "x", MaxWaiters(1)) })
	})
}

func TestATryWithoutAMajorityFailsSoon(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		h.has(l, "y")
		for i := range 2 {
			h.nodes[i].SetError("LOADING x")
		}
		h.within("a TryLock", atMost, func() {
			if _, err := l.TryLock(h.Context(), "x"); !errors.Is(err, ErrUnreachable) {
				h.Errorf("it says %v", err)
			}
		})
	})
}

func TestAHoldThatComesWhileACallbackRunsIsGivenBackIfThatPanics(t *testing.T) {
	onBoth(t, func(w *world) {
		l, other := w.locker(), w.locker()
		lease := w.has(other, "x")
		func() {
			defer func() {
				if recover() == nil {
					w.Error("no panic")
				}
			}()
			_, _ = l.Lock(w.Context(), "x", OnQueued(func(int) {
				w.unlock(lease)
				w.until("the call has the lock", func() bool {
					l.mu.Lock()
					defer l.mu.Unlock()
					for _, c := range l.calls {
						return c.Phase == rules.Granted
					}
					return false
				})
				panic("for the test")
			}))
		}()
		w.unlock(w.has(other, "x"))
		ctx, cancel := context.WithTimeout(w.Context(), patience)
		defer cancel()
		w.must(l.Shutdown(ctx))
		w.nothing()
	})
}

// A LockAll tries its locks in goroutines of its own. A panic in one would end the process.
func TestTheCallbackOfALockAllRunsInItsCallersGoroutineThoughVotesAreSplit(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l, other := h.locker(), h.locker()
		h.hush(2)
		h.has(l, "y") // it finds out
		h.gives(0, other, "a")
		func() {
			defer func() {
				if recover() == nil {
					h.Error("no panic")
				}
			}()
			_, _ = l.LockAll(h.Context(), []string{"a", "b"}, OnQueued(func(int) { panic("the user's own") }))
		}()
		leases, err := l.LockAll(h.Context(), []string{"a", "b"})
		if err != nil {
			h.Fatal(err)
		}
		if err := leases.Unlock(context.Background()); err != nil {
			h.Error(err)
		}
	})
}

func TestOneBrokenConnectionAfterAnOutageCostsATryNothing(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		h.obeys = true
		l := h.locker()
		h.has(l, "y")
		for i := range 2 {
			h.nodes[i].SetError("LOADING x")
		}
		if _, err := l.TryLock(h.Context(), "x"); !errors.Is(err, ErrUnreachable) {
			h.Errorf("it says %v", err)
		}
		time.Sleep(3 * time.Second)
		for i := range 2 {
			h.nodes[i].SetError("")
			h.on(l, i, enterScript, 1, 0)
		}
		for l.nodes[0].away() || l.nodes[1].away() {
			time.Sleep(time.Millisecond)
		}
		h.asksItself(l, 2) // not by a client that breaks
		h.within("a TryLock", atMost, func() {
			if _, err := l.TryLock(h.Context(), "x"); err != nil {
				h.Error(err)
			}
		})
	})
}

func TestWhereNoMajorityIsReachedTheErrorSaysWhyByNode(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		lease := h.has(l, "x", LeaseFor(2*time.Second))
		h.nodes[1].SetError("LOADING the second")
		h.nodes[2].SetError("NOPERM the third")
		says := func(what string, err error, causes ...string) {
			h.Helper()
			if !errors.Is(err, ErrUnreachable) {
				h.Errorf("%s says %v", what, err)
			}
			for _, cause := range causes {
				if !strings.Contains(fmt.Sprint(err), cause) {
					h.Errorf("%s does not say %q: %v", what, cause, err)
				}
			}
		}
		for _, what := range []string{"when a node is found away", "when it is known to be away"} {
			_, err := l.TryLock(h.Context(), "y")
			says("TryLock, "+what, err, "node 2: LOADING the second", "node 3: ", "NOPERM the third")
			_, err = l.Inspect(h.Context(), "x")
			says("Inspect, "+what, err, "node 2: LOADING the second", "node 3: ", "NOPERM the third")
			says("ForceUnlock, "+what, l.ForceUnlock(h.Context(), "x"), "node 2: LOADING the second", "node 3: ", "NOPERM the third")
			for _, err := range l.List(h.Context()) {
				says("List, "+what, err, "node 2: LOADING the second", "node 3: ", "NOPERM the third")
			}
		}
		says("Unlock", lease.Unlock(context.Background()), "node 2: LOADING the second", "NOPERM the third")
		for i := range 2 {
			h.nodes[1+i].SetError("")
		}
	})
}

// loses has the nodes never answer what a Locker asks them about a lock of that name.
func (h *hushed) loses(name string) {
	h.ignore(":lock:{" + name + "}")
}

func TestANodeThatAnswersAProbeIsThereThoughAnOlderRequestStaysUnanswered(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		h.reads = time.Hour
		l := h.locker()
		lease := h.has(l, "x")
		h.loses("y")
		ctx, cancel := context.WithCancel(h.Context())
		lost := make(chan error, 1)
		go func() {
			_, err := l.Lock(ctx, "y")
			lost <- err
		}()
		time.Sleep(time.Minute)
		if err := lease.Err(); err != nil {
			h.Errorf("a holder lost its lock: %v", err)
		}
		h.within("a TryLock", atMost, func() {
			if _, err := l.TryLock(h.Context(), "z"); err != nil {
				h.Error(err)
			}
		})
		cancel()
		if err := <-lost; !errors.Is(err, context.Canceled) {
			h.Errorf("the other call says %v", err)
		}
		h.answers()
	})
}

func TestATryWaitsForNoAnswerThatIsLostThoughTheNodesAnswerProbes(t *testing.T) {
	for _, age := range []time.Duration{0, 1, silence / 2, silence - 1, silence} { // of another call's request
		inFakeTime(t, 3, func(h *hushed) {
			h.reads = time.Minute
			l := h.locker()
			h.has(l, "x")
			h.loses("y")
			go func() { _, _ = l.Lock(h.Context(), "y") }()
			time.Sleep(age)
			h.within(fmt.Sprint("a TryLock after ", age), atMost, func() {
				if _, err := l.TryLock(h.Context(), "y"); !errors.Is(err, ErrUnreachable) {
					h.Errorf("it says %v", err)
				}
			})
			h.answers()
		})
	}
}

func TestAnOldRequestThatFailsSaysNothingOfANodeThatHasAnsweredAProbeSince(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		h.reads = 2 * time.Second
		h.obeys = true
		l := h.locker()
		h.has(l, "x")
		h.asksItself(l, 0)
		h.loses("y")
		ctx, cancel := context.WithTimeout(h.Context(), time.Millisecond)
		defer cancel()
		_, _ = l.Lock(ctx, "y")
		h.ignore("")
		back := func() time.Time {
			n := l.nodes[1]
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.since
		}
		time.Sleep(silence)
		h.has(l, "z") // it finds out
		time.Sleep(time.Millisecond)
		first := back()
		if first.IsZero() {
			h.Error("the node was never away")
		}
		time.Sleep(2 * time.Second)
		if last := back(); !last.Equal(first) {
			h.Errorf("the node was away again, until %v later", last.Sub(first))
		}
		h.answers()
	})
}

func TestANodeThatProbesFindToBeOfAnotherQuorumStaysAway(t *testing.T) {
	w := realNodes(t, 3)
	var seen written.Text
	l := w.locker(WithLogger(slog.New(slog.NewTextHandler(&seen, nil))))
	w.unlock(w.has(l, "x"))
	w.until("all is answered", l.idle) // or the node would refuse a late leave, and keep its vote
	w.nothing()
	w.must(w.direct[2].HSet(w.Context(), "quorum:node", "set", "another").Err())
	w.must(w.direct[2].Do(w.Context(), "CLIENT", "PAUSE", "1000", "ALL").Err())
	w.unlock(w.has(l, "x"))
	w.until("it is away", l.nodes[2].away)
	w.until("it says why", func() bool { return strings.Contains(seen.String(), "is another one") })
	if !l.nodes[2].away() || l.nodes[2].listens() {
		t.Error("the node counts")
	}
	w.unlock(w.has(l, "x"))
	if n := w.direct[2].Exists(w.Context(), "quorum:lock:{x}").Val(); n > 0 {
		t.Error("the node was asked for its vote")
	}
	w.must(w.direct[2].HSet(w.Context(), "quorum:node", "set", l.nodes[2].seat).Err())
	w.until("it is back", func() bool { return !l.nodes[2].away() })
}
