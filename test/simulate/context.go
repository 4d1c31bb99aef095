package simulate

import (
	"context"
	"time"

	"github.com/fairlock/locks/test/simulate/stage"
)

// stands is a time for which a process stood still. It ends when the process has done what it then
// had to do.
type stands struct{ from, to time.Time }

// follow adds a context that ends with the belief.
func (r *referee) follow(ctx context.Context, b *belief) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.follows(ctx, b)
}

// follows is follow with World.mu held.
func (r *referee) follows(ctx context.Context, b *belief) {
	b.contexts++
	context.AfterFunc(ctx, func() {
		r.w.mu.Lock()
		defer r.w.mu.Unlock()
		if d := r.w.plan.Break.Context; d > 0 {
			r.w.after(d, func() { r.darkens(b) })
			return
		}
		r.darkens(b)
	})
}

// darkens notes that one of a belief's contexts has ended.
func (r *referee) darkens(b *belief) {
	if b.contexts--; b.contexts > 0 || !b.dark.IsZero() {
		return
	}
	r.outlives(b)
	b.dark = time.Now()
	r.judge(b)
}

// lasts returns until when a user works under the lock that looks at the contexts and nothing else.
func (b *belief) lasts() time.Time {
	now := time.Now()
	end := now
	for _, at := range []time.Time{b.dark, b.left} {
		if !at.IsZero() {
			end = stage.Earlier(end, at)
		}
	}
	if deadline := b.lease.Deadline(); end.After(deadline) && b.by.stood(deadline, end) {
		return deadline // the process stood still meanwhile, and the user's code with it
	}
	return end
}

// outlives judges that the contexts of a belief end in time: when the lock may no longer be
// trusted, and when the Locker is closed (1, 7).
func (r *referee) outlives(b *belief) {
	if !b.dark.IsZero() || !b.left.IsZero() || b.by.crashed || b.dim {
		return
	}
	now, deadline := time.Now(), b.lease.Deadline()
	if over := now.Sub(deadline); over > stage.AtOnce && !b.by.stood(deadline, now) {
		b.dim = true
		r.violated(1, "%s: the context of %s with token %d lives, and it may be trusted no more since %v", b.lk.name, b.by.name, b.token, over)
	}
	if closed := b.by.closed; !closed.IsZero() && now.Sub(closed) > stage.AtOnce {
		b.dim = true
		r.violated(7, "%s: the context of %s with token %d lives, and its Locker is closed since %v", b.lk.name, b.by.name, b.token, now.Sub(closed))
	}
}

// stood reports whether a client's process stood still between two times, or had not yet done what
// it then had to do.
func (c *client) stood(from, to time.Time) bool {
	for _, s := range c.stands {
		if !s.from.After(from.Add(stage.AtOnce)) && s.to.After(from) {
			from = s.to
		}
	}
	return !from.Before(to) || c.paused != nil && !c.stands[len(c.stands)-1].from.After(from.Add(stage.AtOnce))
}
