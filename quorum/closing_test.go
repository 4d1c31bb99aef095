package quorum

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// closing is a caller's context that closes the Locker as it is asked for the nth time.
type closing struct {
	context.Context
	l    *Locker
	left *atomic.Int32
}

func (c closing) asked() {
	if c.left.Add(-1) == -1 {
		_ = c.l.Close()
	}
}

func (c closing) Done() <-chan struct{} { c.asked(); return c.Context.Done() }
func (c closing) Err() error            { c.asked(); return c.Context.Err() }

func TestACallersContextMayCloseTheLockerWhileAFixedLeaseIsConfirmed(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		for n := range int32(12) {
			l := h.locker()
			ctx := closing{h.Context(), l, new(atomic.Int32)}
			ctx.left.Store(n)
			h.within("a call", 10*time.Second, func() {
				if lease, err := l.Lock(ctx, "x", LeaseFor(20*time.Second)); err == nil {
					_ = lease.Unlock(context.Background())
				}
			})
			if err := h.locker().ForceUnlock(h.Context(), "x"); err != nil && !errors.Is(err, ErrNotHeld) {
				h.Error(err)
			}
		}
	})
}

func TestAnUnlockOfSeveralSaysSoIfAHookEndsTheGoroutineThatReleases(t *testing.T) {
	w := realNodes(t, 3)
	var on atomic.Bool
	l := w.hooked(before(func(cmds ...redis.Cmder) {
		if on.Load() && cmds[0].Name() == "evalsha" {
			runtime.Goexit()
		}
	}), true)
	a := w.has(l, "a")
	leases, err := l.LockAll(a.Context(), []string{"a", "b"}) // a is had again
	w.must(err)
	on.Store(true)
	if err := leases.Unlock(w.Context()); err == nil {
		t.Error("b is said to be given back, and no node has heard of that")
	}
	on.Store(false)
	_ = a.Unlock(w.Context()) // it could not be renewed
}

// comesAndWaits has a call of that Locker stand in line for a lock that another has, until it ends.
func (h *hushed) comesAndWaits(l *Locker, name string) (give func()) {
	h.Helper()
	h.has(h.locker(), name)
	ctx, cancel := context.WithCancel(h.Context())
	queued, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = l.Lock(ctx, name, OnQueued(func(int) { close(queued) }))
	}()
	<-queued
	h.Cleanup(func() { cancel(); <-ended })
	return func() { cancel(); <-ended }
}

// lines are how many calls are in line at each node.
func (h *hushed) lines(name string) (all []int) {
	for _, node := range h.nodes {
		line, _ := node.ZMembers("quorum:queue:{" + name + "}") // none is no line
		all = append(all, len(line))
	}
	return all
}

// ways are how a Locker came to miss the first node, which harm makes one to be missed.
var ways = map[string]func(h *hushed, harm func()) *Locker{
	"it has met the others alone": func(h *hushed, harm func()) *Locker {
		harm()
		l := h.locker()
		h.has(l, "y")
		return l
	},
	"it has missed the node for long": func(h *hushed, harm func()) *Locker {
		l := h.locker()
		h.has(l, "y")
		harm()
		time.Sleep(30 * time.Second)
		return l
	},
	"a call has given up": func(h *hushed, harm func()) *Locker {
		l := h.locker()
		give := h.comesAndWaits(l, "x")
		harm()
		time.Sleep(30 * time.Second)
		give()
		return l
	},
	"a call waits": func(h *hushed, harm func()) *Locker {
		l := h.locker()
		h.comesAndWaits(l, "x")
		harm()
		return l
	},
	"a lock was given back": func(h *hushed, harm func()) *Locker {
		l := h.locker()
		h.comesAndWaits(l, "x")
		lease := h.has(l, "y")
		harm()
		if err := lease.Unlock(context.Background()); err != nil {
			h.Error(err)
		}
		return l
	},
	"the nodes were asked who they are": func(h *hushed, harm func()) *Locker {
		l := h.locker()
		harm()
		ctx, cancel := context.WithTimeout(h.Context(), 400*time.Millisecond)
		defer cancel()
		if _, err := l.Nodes(ctx); !errors.Is(err, context.DeadlineExceeded) {
			h.Errorf("Nodes says %v", err)
		}
		return l
	},
}

// closesWithin fails if a Close takes longer, however the Locker has come to miss the first node,
// or if the others do not hear that its calls have left. Its clients wait for answers for so long.
func closesWithin(t *testing.T, reads, limit time.Duration, harm func(h *hushed)) {
	for way, begin := range ways {
		for _, obeys := range []bool{false, true} {
			t.Run(fmt.Sprint(way, ", clients obey: ", obeys), func(t *testing.T) {
				inFakeTime(t, 3, func(h *hushed) {
					h.obeys, h.reads = obeys, reads
					l := begin(h, func() { harm(h) })
					h.within("Close", limit, func() { _ = l.Close() })
					for i, n := range h.lines("x")[1:] {
						if n > 1 {
							h.Errorf("%d others are in line at node %d", n-1, i+2)
						}
					}
				})
			})
		}
	}
}

func TestACloseWaitsTwoSecondsAtMostForDialsToANodeThatIsGone(t *testing.T) {
	closesWithin(t, lastWords/2, 2*lastWords, func(h *hushed) { h.darken(0) })
}

func TestACloseWaitsForASilentNodeOnce(t *testing.T) {
	const reads = 3 * time.Second
	closesWithin(t, reads, reads+lastWords, func(h *hushed) { h.hush(0) })
}

// narrow is a way to a node that one request at a time takes, slowly.
type narrow struct{ way chan struct{} }

func (n narrow) DialHook(next redis.DialHook) redis.DialHook { return next }

func (n narrow) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return n.pass(ctx, func() error { return next(ctx, cmd) })
	}
}

func (n narrow) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return n.pass(ctx, func() error { return next(ctx, cmds) })
	}
}

func (n narrow) pass(ctx context.Context, f func() error) error {
	select {
	case n.way <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-n.way }()
	time.Sleep(700 * time.Millisecond)
	return f()
}

func TestACloseTellsANodeThatAnswersAllHoweverLongThatTakes(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		if err := h.has(l, "y").Unlock(h.Context()); err != nil { // so the nodes know the scripts
			h.Fatal(err)
		}
		lease := h.has(h.locker(), "x")
		const crowd = 150 // more than some requests have room for
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() { _, _ = l.Lock(h.Context(), "x") })
		}
		time.Sleep(time.Second)
		l.nodes[0].rdb.(*redis.Client).AddHook(narrow{make(chan struct{}, 1)})
		began := time.Now()
		_ = l.Close()
		all.Wait()
		if n := h.lines("x"); n[0] > 1 || n[1] > 1 || time.Since(began) < 2*lastWords {
			h.Errorf("after %v, %v are in line", time.Since(began), n)
		}
		if err := lease.Unlock(h.Context()); err != nil {
			h.Error(err)
		}
	})
}

func TestAnUnlockAfterACloseGivesTheLockBackThoughANodeWasGivenUp(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		lease := h.has(l, "x")
		h.darken(0)
		time.Sleep(30 * time.Second)
		_ = l.Close()
		h.within("the Unlock", atMost, func() {
			if err := lease.Unlock(context.Background()); err != nil {
				h.Error(err)
			}
		})
		h.within("the next Lock", atMost, func() { h.has(h.locker(), "x") })
	})
}

// cutTwice is connections that have ended, for the first two leaves.
type cutTwice struct {
	wire
	asked atomic.Int32
}

func (c *cutTwice) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if len(cmd.Args()) > 1 && cmd.Args()[1] == c.sha && c.asked.Add(1) <= 2 {
			cmd.SetErr(io.EOF)
			return io.EOF
		}
		return next(ctx, cmd)
	}
}

func TestAnUnlockAfterACloseOutlivesConnectionsThatEnd(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		lease := h.has(l, "x")
		var cuts []*cutTwice
		for _, n := range l.nodes {
			cuts = append(cuts, &cutTwice{wire: wire{sha: leaveScript.Command(nil)[1].(string)}})
			n.rdb.(*redis.Client).AddHook(cuts[len(cuts)-1])
		}
		_ = l.Close()
		h.within("the Unlock", lastWords, func() {
			if err := lease.Unlock(context.Background()); err != nil {
				h.Error(err)
			}
		})
		for i, c := range cuts {
			if n := c.asked.Load(); n < 3 {
				h.Errorf("node %d was asked %d times", i, n)
			}
		}
		h.within("the next Lock", atMost, func() { h.has(h.locker(), "x") })
	})
}
