package majority

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/simulate/stage"
)

// pacer starts each of a client's commands at an instant of its own. Otherwise goroutines that wake
// up together would reach for the pool in a random order. It is also the hook of the user's own,
// which does what users' code does.
type pacer struct{ l *link }

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
		c := p.l.c
		time.Sleep(stage.Span(c.w.draw(c.id, uint64(p.l.n.i), stage.Contents(args), 7), 1, 20*time.Microsecond)) //nolint:gosec // it is small
		h := p.l.hooks(args)
		h.acts(&h.before)
		err := next(ctx, cmd)
		h.acts(&h.after)
		return err
	}
}

func (p pacer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// hooked is what the user's hook does to one request, before it is sent and once it is answered.
type hooked struct {
	l             *link
	args          []string
	verb          string
	before, after deed
}

// deed is what a hook does at one time.
type deed struct {
	takes time.Duration
	ends  bool // its goroutine
}

// hooks draws what the hook does to a request: nearly always nothing.
func (l *link) hooks(args []string) (h hooked) {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	verb := l.n.Verb(args)
	if l.hooked == 0 || verb == "" {
		return h
	}
	l.hooked--
	r := w.draw(l.c.id, uint64(l.n.i), stage.Contents(args), 24) //nolint:gosec // it is small
	h = hooked{l: l, args: args, verb: verb}
	do := &h.before
	if r.IntN(2) == 0 {
		do = &h.after
	}
	if do.ends = r.IntN(2) == 0; r.IntN(2) == 0 || !do.ends {
		do.takes = stage.Span(r, time.Millisecond, 3*time.Second)
	}
	return h
}

// acts does what the hook does now. It ends goroutines of the library's only: a caller whose own
// ended would have no way to go on.
func (h *hooked) acts(do *deed) {
	if *do == (deed{}) {
		return
	}
	l := h.l
	if do.takes > 0 {
		l.distracts(1, "slow hook", h.verb)
		timer := time.NewTimer(do.takes)
		select {
		case <-timer.C:
		case <-l.c.gone:
		}
		timer.Stop()
		l.c.runs(stage.Contents(h.args))
		l.distracts(-1, "", "")
	}
	if do.ends && isLibrarys() {
		l.distracts(0, "hook ends its goroutine", h.verb)
		runtime.Goexit()
	}
}

// distracts notes that so many more requests are kept by a hook. Whatever comes of that is no
// fault of the network.
func (l *link) distracts(n int, what, verb string) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.hooking += n
	l.trouble()
	l.c.distracted = time.Now()
	if what != "" {
		l.w.fault(what, "%s-%s: %s", l.c.name, l.n.name, verb)
	}
}

// isLibrarys reports whether no user of locks calls in this goroutine.
func isLibrarys() bool {
	var pc [64]uintptr
	frames := runtime.CallersFrames(pc[:runtime.Callers(4, pc[:])])
	for {
		f, more := frames.Next()
		if strings.Contains(f.Function, "simulate/majority.") && !strings.Contains(f.Function, "majority.pacer") {
			return false
		}
		if !more {
			return true
		}
	}
}
