package simulate

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
)

// wayBack is how long it takes, at most, until nothing of a call that has ended is left with a
// server that can be reached: a request to a connection that is dead, the wait before the next
// one, and what a pool is waited for.
const wayBack = 20 * time.Second

// usage is by whom of a client an ownership is used: the holds of an owner share one.
type usage struct {
	leases int       // that have not been given up
	until  time.Time // the last of them was, or its trust had ended and the server kept it for its margin
}

type user struct{ client, owner string }

// uses takes in that a Lease is in somebody's hands.
func (r *referee) uses(b *belief) {
	who := user{b.by.uuid, b.owner}
	if b.lk.users[who] == nil {
		b.lk.users[who] = new(usage)
	}
	b.lk.users[who].leases++
}

// finished takes in that it is no more, and what that came to will not be known.
func (r *referee) finished(b *belief) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.finishes(b)
}

// finishes is finished with World.mu held.
func (r *referee) finishes(b *belief) {
	if b == nil || b.over {
		return
	}
	b.over = true
	u := b.lk.users[user{b.by.uuid, b.owner}]
	u.leases--
	u.until = time.Now()
	if b.late {
		u.until = later(u.until, b.lease.Deadline().Add(time.Minute)) // an hour's margin is no longer
	}
}

// orphans judges that nobody's tickets stay with the server when their calls have ended (7):
// neither in line nor with the lock. Not judged: clients that are dead or closed, whose holds end
// with their leases, and a leave that the server refused.
func (r *referee) orphans(lk *lock, is *state) {
	for _, p := range is.line {
		if is.set[p.ticket] > float64(is.ms) { // else nobody takes any notice of it
			r.orphan(lk, p.ticket, "is in line")
		}
	}
	for ticket, deadline := range is.holds {
		if deadline > is.ms {
			r.orphan(lk, ticket, "has the lock")
		}
	}
}

func (r *referee) orphan(lk *lock, ticket, what string) {
	c := r.w.byID(clientOf(ticket))
	if c == nil || c.crashed || c.closing || c.paused != nil || lk.refused[ticket] {
		return
	}
	k := c.noted[noteOf(ticket)]
	able, quiet := c.link.able()
	if k == nil || !k.done || !quiet {
		return
	}
	since := later(k.endedAt, able)
	for _, s := range c.stands {
		since = later(since, s.to)
	}
	if u := lk.users[user{c.uuid, ownerOf(ticket)}]; u != nil {
		if u.leases > 0 {
			return
		}
		since = later(since, u.until)
	}
	if d := time.Since(since); d > wayBack+r.w.setBack {
		lk.refused[ticket] = true // once is enough
		r.violated(7, "%s: %s %s, and its call ended %v ago: nobody will leave", lk.name, ticket, what, d)
	}
}

// noteOf is the note of a ticket.
func noteOf(ticket string) string {
	part := strings.Split(ticket, ":")
	return part[len(part)-1]
}

// leaseOf is what a ticket asks for.
func leaseOf(ticket string) time.Duration {
	part := strings.Split(ticket, ":")
	ms, _ := strconv.ParseInt(part[2], 10, 64)
	return time.Duration(ms) * time.Millisecond
}

// told judges what an Unlock says of the reason (6).
func (r *referee) told(b *belief, err error) {
	switch {
	case err == nil || b.by.closing || b.by.crashed:
	case passes(err) && time.Now().Before(b.lease.Deadline()): // later there is nothing to give back
		r.violated(6, "%s: %s gave back token %d, and that failed for what passes: %v", b.lk.name, b.by.name, b.token, err)
	case errors.Is(err, fairlock.ErrLost) && strings.Contains(err.Error(), "administrator forced"):
		if g := b.lk.grants[b.token]; g == nil || g.forced.IsZero() {
			r.violated(6, "%s: %s lost token %d by a force that there was not: %v", b.lk.name, b.by.name, b.token, err)
		}
	}
}

// passes reports whether an error is the server's, about a state that passes.
func passes(err error) bool {
	for _, prefix := range passing {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// size judges that a token is not ahead of the server's clock (3): a larger one is somebody's
// invention.
func (l *look) size(lk *lock, is *state) {
	w := l.r.w
	w.farthest = later(w.farthest, is.at)
	if most := w.farthest.Add(time.Second).UnixMicro(); is.token > most || is.last > most {
		if !lk.inflated {
			lk.inflated = true
			l.r.violated(3, "%s: the %s of %s left token %s, which is ahead of the server's clock", lk.name, l.verb, l.by.name, strconv.FormatInt(max(is.token, is.last), 10))
		}
	}
}
