package majority

import (
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/simulate/stage"
)

// paced is the hook of the client's: see stage.Pacer.
func (l *link) paced(_ redis.Cmder, args []string, send func() error) error {
	r := l.w.draw(l.c.id, uint64(l.n.i), stage.Contents(args), 7) //nolint:gosec // it is small
	time.Sleep(stage.Span(r, 1, 20*time.Microsecond))
	h := l.hooks(r, args)
	h.acts(&h.before)
	err := send()
	h.acts(&h.after)
	return err
}

// hooked is what the user's hook does to one request, before it is sent and once it is answered.
type hooked struct {
	l             *link
	verb          string
	before, after stage.Deed
}

// hooks draws what the hook does to a request: nearly always nothing. A caller sends by itself only
// while no request is slow, so hooks in callers' goroutines have a draw of their own.
func (l *link) hooks(r *rand.Rand, args []string) (h hooked) {
	users := false
	if r.IntN(50) == 0 && l.w.mischief() {
		users = stage.Whose() == stage.Users
	}
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	verb := l.n.Verb(args)
	switch {
	case verb == "" || !l.w.calmFrom.IsZero():
		return h
	case l.hooked > 0:
		l.hooked--
	case !users:
		return h
	}
	h = hooked{l: l, verb: verb}
	h.before, h.after = stage.Deeds(r, true, true)
	return h
}

// acts does what the hook does now.
func (h *hooked) acts(do *stage.Deed) {
	if do.Takes > 0 {
		h.distracts(1, "slow hook")
		h.l.c.spends(do.Takes)
		h.distracts(-1, "")
	}
	do.End(func(kind string) { h.distracts(0, kind) })
}

// distracts notes that so many more requests are kept by a hook. Whatever comes of that is no
// fault of the network.
func (h *hooked) distracts(n int, what string) {
	l := h.l
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.hooking += n
	l.trouble()
	l.c.distracted = time.Now()
	if what != "" {
		l.w.fault(what, "%s-%s: %s", l.c.name, l.n.name, h.verb)
	}
}
