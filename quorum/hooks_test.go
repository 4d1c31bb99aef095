package quorum

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/nosy"
)

// before is a hook of the user's that is called before each request.
type before func(...redis.Cmder)

func (b before) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		b(cmd)
		return next(ctx, cmd)
	}
}

func (b before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		b(cmds...)
		return next(ctx, cmds)
	}
}

// cutting ends the goroutines of so many requests, as t.FailNow does.
type cutting struct{ left atomic.Int32 }

func (c *cutting) cut(cmds ...redis.Cmder) { // of a greeting, go-redis would leave the connection open
	if cmds[0].Name() == "evalsha" && c.left.Add(-1) >= 0 {
		runtime.Goexit()
	}
}

// ending is a hook that ends a goroutine which sends for its caller: one whose context has the key.
type ending struct{ how func() }

type ends struct{}

func (e ending) DialHook(next redis.DialHook) redis.DialHook { return next }

func (e ending) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if ctx.Value(ends{}) != nil {
			e.how()
		}
		return next(ctx, cmd)
	}
}

func (e ending) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestALockIsGivenBackThoughAHookPanicsOrEndsTheGoroutineOfItsUnlock(t *testing.T) {
	for _, how := range []func(){func() { panic("the user's own") }, runtime.Goexit} {
		w := realNodes(t, 3)
		l := w.hooked(ending{how}, true)
		lease := w.has(l, "x")
		w.soon("Unlock", func() {
			defer func() { _ = recover() }()
			t.Errorf("Unlock returned %v", lease.Unlock(context.WithValue(w.Context(), ends{}, true)))
		})
		w.unlock(w.has(w.locker(), "x"))
		w.soon("Shutdown", func() { w.must(l.Shutdown(w.Context())) })
		w.nothing()
	}
}

func TestALockAllHasItsLocksThoughAHookEndsTheGoroutineOfOneOfItsTries(t *testing.T) {
	w := realNodes(t, 3)
	var once sync.Once
	l := w.hooked(ending{func() { once.Do(runtime.Goexit) }}, true)
	w.unlock(w.has(l, "x"))
	w.soon("LockAll", func() {
		leases, err := l.LockAll(context.WithValue(w.Context(), ends{}, true), []string{"x", "y", "z"})
		w.must(err)
		w.must(leases.Unlock(w.Context()))
	})
	w.nothing()
}

// cuts has the Locker's requests to some nodes cut short, but not those from its callers' own
// goroutines: as many as the test says.
func (h *hushed) cuts(l *Locker, nodes ...int) (cut func(n int32)) {
	var hooks []*cutting
	for _, i := range nodes {
		hook := new(cutting)
		l.nodes[i].rdb.(*redis.Client).AddHook(before(hook.cut))
		hooks = append(hooks, hook)
	}
	return func(n int32) {
		for _, hook := range hooks {
			hook.left.Store(n)
		}
	}
}

// idle reports whether no request is under way.
func (l *Locker) idle() bool {
	for _, n := range l.nodes {
		n.mu.Lock()
		open := len(n.open)
		n.mu.Unlock()
		if open > 0 {
			return false
		}
	}
	return true
}

// seeing counts scripts.
type seeing struct{ scripts atomic.Int32 }

func (s *seeing) count(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if cmd.Name() == "evalsha" {
			s.scripts.Add(1)
		}
	}
}

func TestTheHooksOfTheUsersClientsSeeAllRequestsOfACall(t *testing.T) {
	for _, obeys := range []bool{false, true} {
		w := realNodes(t, 3)
		var hook seeing
		l := w.hooked(before(hook.count), obeys)
		for _, ctx := range []context.Context{context.Background(), w.Context()} {
			w.unlock(w.has(l, "x")) // the nodes know the scripts
			w.until("nothing is under way", func() bool { return l.idle() })
			want := hook.scripts.Load() + 6
			lease, err := l.Lock(ctx, "y")
			w.must(err)
			w.must(lease.Unlock(ctx))
			w.until("all have asked", func() bool { return hook.scripts.Load() >= want })
		}
	}
}

func TestCallsWhoseRequestsAreCutShortByAHookAskAgain(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		h.has(l, "y")
		cut := h.cuts(l, 0, 1, 2)
		cut(1)
		ctx, cancel := context.WithTimeout(h.Context(), 5*time.Second)
		defer cancel()
		lease, err := l.Lock(ctx, "x")
		if err != nil {
			h.Fatal(err)
		}
		cut(1)
		if err := lease.Unlock(context.Background()); err != nil {
			h.Errorf("Unlock says %v", err)
		}
		cut(0)
		if _, err := h.locker().TryLock(h.Context(), "x"); err != nil {
			h.Error(err)
		}
	})
}

// faltering is a hook of a node that is first not ready for a leave, and then does as it is asked,
// but the goroutine ends that waits for its answer.
type faltering struct {
	wire
	asked atomic.Int32
}

func (f *faltering) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if len(cmd.Args()) < 2 || cmd.Args()[1] != f.sha {
			return next(ctx, cmd)
		}
		n := f.asked.Add(1)
		if n == 1 {
			cmd.SetErr(notReady{})
			return notReady{}
		}
		err := next(ctx, cmd)
		if n == 2 {
			runtime.Goexit()
		}
		return err
	}
}

// notReady is an answer of a server that begins.
type notReady struct{}

func (notReady) Error() string { return "LOADING the node is not ready" }
func (notReady) RedisError()   {}

func TestALeaveWhoseRepetitionWasCutShortByAHookMayHaveBeenDone(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		lease := h.has(l, "x")
		said := make(chan struct{})
		l.nodes[0].rdb.(*redis.Client).AddHook(&faltering{wire: wire{sha: leaveScript.Command(nil)[1].(string)}})
		l.mu.Lock()
		var c *call
		for _, c = range l.calls {
		}
		l.mu.Unlock()
		l.leaves(context.Background(), c, 0, lease.Token(), l.nodes[0].server, func(was lua.Was, again bool, err error) {
			if !again || err != nil {
				h.Errorf("the last leave says %q, that one may have been done before: %t, %v", was, again, err)
			}
			close(said)
		})
		<-said
	})
}

func TestAHoldWhoseRenewalIsCutShortByAHookIsRenewedSoon(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		lease := h.has(l, "x")
		cut := h.cuts(l, 0, 1, 2)
		cut(2)
		time.Sleep(time.Minute)
		if err := lease.Err(); err != nil {
			h.Error(err)
		}
	})
}

func TestANodeIsBackThoughAHookCutAProbeShort(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		h.has(l, "x")
		h.nodes[2].SetError("LOADING the node is not ready")
		h.has(l, "y")
		time.Sleep(time.Second)
		h.cuts(l, 2)(2)
		time.Sleep(10 * time.Second)
		h.nodes[2].SetError("")
		time.Sleep(10 * time.Second)
		if l.nodes[2].away() {
			h.Error("it is away")
		}
	})
}

func TestCloseEndsThoughAHookCutsAllRequestsShort(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		h.has(l, "x")
		other := h.has(h.locker(), "z")
		ctx, cancel := context.WithCancel(h.Context())
		var calls sync.WaitGroup
		calls.Go(func() { _, _ = l.Lock(ctx, "z") })
		time.Sleep(time.Second)
		h.cuts(l, 0, 1, 2)(1_000_000)
		time.Sleep(time.Second) // for a renewal, and then for a heartbeat
		_, err := l.Nodes(h.Context())
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			h.Error(err)
		}
		time.Sleep(time.Minute)
		closed := make(chan struct{})
		go func() {
			_ = l.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(time.Minute):
			stacks := make([]byte, 1<<20)
			h.Errorf("it does not end:\n%s", strings.TrimSpace(string(stacks[:runtime.Stack(stacks, true)])))
		}
		cancel()
		calls.Wait()
		_ = other
	})
}

func TestAnErrorOfAHooksOwnTypeMayUseTheLockOrPanicWhateverItIsAsked(t *testing.T) {
	for _, panics := range []bool{false, true} {
		w := realNodes(t, 3)
		l, other := w.locker(WithLease(brief)), w.locker()
		f := &nosy.Hook{Asked: func() {
			if panics {
				panic("the error's own")
			}
			if lease, err := l.TryLock(w.Context(), "z"); err == nil {
				_ = lease.Unlock(w.Context()) // another may have ended it
			}
		}}
		for _, n := range l.nodes {
			n.rdb.(*redis.Client).AddHook(f)
		}
		w.unlock(w.has(l, "y", LeaseFor(30*time.Second))) // the first contact takes its time
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for n := range int32(8) {
				for _, call := range []func(context.Context, string, ...LockOption) (*Lease, error){l.Lock, l.TryLock} {
					f.Fails(n+1, 1)
					if lease, err := call(context.Background(), "x"); err == nil {
						if n > 2 {
							time.Sleep(brief / 2) // for a renewal
						}
						_ = lease.Unlock(context.Background()) // its request may be the one that fails
						_, _ = lease.Err(), lease.Unlock(context.Background())
					} else {
						_ = err.Error()
					}
				}
			}
			_ = l.Close()
		}()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatal("somebody waits for a mutex for good")
		}
		w.unlock(w.has(other, "x"))
	}
}

func TestInitAndNodesTellOfANodeWhoseRequestAHookHasCutShort(t *testing.T) {
	w := realNodes(t, 3)
	l := w.hooked(ending{runtime.Goexit}, true)
	ctx := context.WithValue(w.Context(), ends{}, true)
	w.is(l.Init(ctx), lua.ErrCutShort)
	all, err := l.Nodes(ctx)
	w.must(err)
	cut := 0
	for i, node := range all {
		if node.Err != nil {
			w.is(node.Err, lua.ErrCutShort)
			cut++
		}
		if node.Node != w.addrs[i] {
			t.Errorf("node %d is %q", i+1, node.Node)
		}
	}
	if cut == 0 {
		t.Errorf("%+v", all)
	}
}
