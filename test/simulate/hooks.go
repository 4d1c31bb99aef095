package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/simulate/stage"
)

// pacer starts each of a client's commands at an instant of its own. Otherwise goroutines that wake
// up together would reach for the pool in a random order. It is also the hook of the user's own,
// which does what users' code does.
type pacer struct{ c *client }

func (p pacer) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (p pacer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "hello" { // see link.dial
			return next(ctx, cmd)
		}
		args := make([]string, len(cmd.Args()))
		for i, arg := range cmd.Args() {
			args[i] = fmt.Sprint(arg)
		}
		time.Sleep(stage.Span(p.c.w.draw(p.c.id, stage.Contents(args), 7), 1, 50*time.Microsecond))
		if p.c.forgoes(args) {
			cmd.(interface{ SetVal(any) }).SetVal(int64(1)) //nolint:forcetypeassert // each has a value
			return nil
		}
		h := p.c.hooks(args)
		h.acts(&h.before)
		err := next(ctx, cmd)
		if lua.Unanswered(err) {
			p.c.w.referee.unanswered(args)
		}
		h.acts(&h.after)
		return err
	}
}

func (p pacer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// hooked is what the user's hook does to one request, before it is sent and once it is answered.
type hooked struct {
	c             *client
	args          []string
	verb          string
	r             *rand.Rand
	before, after deed
}

// deed is what a hook does at one time.
type deed struct {
	takes time.Duration
	ends  bool // it panics, or ends its goroutine
}

// slowest is how long a hook takes at most.
const slowest = 3 * time.Second

// hooks draws what the hook does to a request: nearly always nothing.
func (c *client) hooks(args []string) (h hooked) {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	verb := w.server.Verb(args)
	if c.link.hooked == 0 || verb == "" || verb != "leave" && w.plan.Break.Hook {
		return h
	}
	c.link.hooked--
	h = hooked{c: c, args: args, verb: verb, r: w.draw(c.id, stage.Contents(args), 24)}
	do := &h.before
	if h.r.IntN(2) == 0 {
		do = &h.after
	}
	if w.plan.brings(Hooks) && h.r.IntN(3) > 0 {
		do.takes = stage.Span(h.r, time.Millisecond, slowest)
	}
	do.ends = w.plan.brings(HookCrashes) && h.r.IntN(2) == 0
	return h
}

// forgoes reports whether a request is not to be sent, for it has been cut short before: a test
// breaks that on purpose.
func (c *client) forgoes(args []string) bool {
	if !c.w.plan.Break.Hook || len(args) < 12 {
		return false
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.w.server.Verb(args) != "leave" {
		return false
	}
	_, cut := c.cutShort.Load(args[11])
	return cut
}

var errHook = errors.New("the hook's own")

// acts does what the hook does now. It ends only goroutines in which somebody bears that: a panic
// in one of the library's would end the process, as anywhere.
func (h *hooked) acts(do *deed) {
	if *do == (deed{}) {
		return
	}
	c, verb := h.c, h.verb
	if do.takes > 0 {
		c.fault("slow hook", "%s, %v", verb, do.takes)
		c.distracts(1)
		c.pass(do.takes)
		c.runs(stage.Contents(h.args))
		c.distracts(-1)
	}
	users, librarys := whose()
	if !do.ends || !users && !librarys {
		return
	}
	c.w.referee.unanswered(h.args)
	c.link.lost(h.args)
	if verb == "leave" { // it is repeated soon
		c.cutShort.Store(h.args[11], true) // its first ticket
	} else {
		c.distracts(0)
	}
	if users && h.r.IntN(2) == 0 {
		c.fault("hook panics", "%s", verb)
		panic(errHook)
	}
	c.fault("hook ends its goroutine", "%s", verb)
	runtime.Goexit()
}

// distracts notes that so many more requests are kept by a hook. Whatever comes of that is no
// fault of the network.
func (c *client) distracts(n int) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.link.hooking += n
	c.link.trouble()
}

// whose reports whether the goroutine is one of the user's that survives, or one of the library's.
func whose() (users, librarys bool) {
	var pc [64]uintptr
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc[:])])
	for {
		f, more := frames.Next()
		switch {
		case strings.HasSuffix(f.Function, ".callsBack"):
			return false, false
		case strings.Contains(f.Function, ").survives"):
			users = true
		case strings.Contains(f.Function, "engine.(*Tasks).Go"), strings.Contains(f.Function, "engine.ForEach"):
			librarys = true
		}
		if !more {
			return users, librarys && !users
		}
	}
}

// survives runs the user's code in a goroutine that may panic or end, as far as the user's own code
// makes it. Then it does what deferred functions do.
func (a *actor) survives(f func()) {
	returned, done := false, make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil && r != any(errOwn) && r != any(errHook) {
				panic(r)
			}
		}()
		f()
		returned = true
	}()
	<-done
	if !returned {
		a.drops()
	}
}

// drops ends what the actor began, and unlocks what it has.
func (a *actor) drops() {
	for _, k := range a.open {
		if !k.done {
			a.ends(k, "nothing: the user's code did not return")
		}
	}
	for _, b := range slices.Backward(a.has) {
		a.w.mu.Lock()
		over, left := b.over || b.by.crashed, !b.left.IsZero()
		a.w.mu.Unlock()
		switch {
		case over:
		case b.inDo || left: // it is given back by Do, or by the Unlock that did not return
			if !left {
				a.w.referee.unlocks(b)
			}
			a.w.referee.finished(b)
		default:
			a.w.referee.unlocks(b)
			a.survives(func() { a.w.referee.unlocked(b, b.lease.Unlock(context.Background())) })
		}
	}
}
