package simulate

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/simulate/stage"
)

// wayBack bounds how long a call that has ended may leave something with a reachable server. It
// covers a request to a dead connection, the wait before the next request, and the wait for a pool.
const wayBack = 20 * time.Second

// usage says how one client uses an ownership. The holds of an owner share one usage.
type usage struct {
	leases int // leases that have not been given up
	// When the last of them was given up, or when the margin after its trust had passed at the
	// server.
	until time.Time
}

type user struct{ client, owner string }

// uses notes that a Lease is in use.
func (r *referee) uses(b *belief) {
	who := user{b.by.uuid, b.owner}
	if b.lk.users[who] == nil {
		b.lk.users[who] = new(usage)
	}
	b.lk.users[who].leases++
}

// finished notes that a Lease is no longer in use, and that the outcome will not be known.
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
		u.until = stage.Later(u.until, b.lease.Deadline().Add(time.Minute)) // an hour's margin is no longer
	}
}

// orphans judges that no ticket stays with the server after its call has ended (7), neither in line
// nor with the lock. Two cases are not judged. One is a dead or closed client, whose holds end with
// their leases. The other is a leave that the server refused.
func (r *referee) orphans(lk *lock, is *state) {
	for _, p := range is.line {
		if is.set[p.ticket] > float64(is.ms) { // an overdue ticket concerns nobody
			r.orphan(lk, is, p.ticket, "is in line")
		}
	}
	for ticket, deadline := range is.holds {
		if deadline > is.ms {
			r.orphan(lk, is, ticket, holdsLock)
		}
	}
}

const holdsLock = "has the lock"

func (r *referee) orphan(lk *lock, is *state, ticket, what string) {
	c := r.w.byID(stage.ClientOf(ticket))
	if c == nil || c.crashed || c.closing || c.paused != nil || lk.refused[ticket] {
		return
	}
	k := c.called(lk.name, ticket)
	able, quiet := c.link.able()
	if k == nil || !k.done || !quiet {
		return
	}
	if lk.lost.After(k.endedAt) {
		return // and with the data the mark that the ticket has left: a late request of it counts
	}
	since := stage.Later(k.endedAt, able)
	for _, s := range c.stands {
		since = stage.Later(since, s.to)
	}
	since = stage.Later(since, lk.unmarked(k.endedAt))
	owners := []string{ownerOf(ticket)}
	if g := lk.grants[is.token]; what == holdsLock && g != nil {
		owners = append(owners, g.others()...)
		until, yet := c.gathered(lk, g)
		if yet {
			return
		}
		since = stage.Later(since, until)
	}
	for _, owner := range owners {
		if u := lk.users[user{c.uuid, owner}]; u != nil {
			if u.leases > 0 {
				return
			}
			since = stage.Later(since, u.until)
		}
	}
	if d := time.Since(since); d > wayBack+r.w.setBack {
		lk.refused[ticket] = true // one objection is enough
		r.violated(7, "%s: %s %s, and its call ended %v ago: nobody will leave", lk.name, ticket, what, d)
	}
}

// gathered is until when a call for several locks may have had a turn of a grant, and waited for its
// other locks, and whether it may be so yet. In a plain lock any call may have turns.
func (c *client) gathered(lk *lock, g *grant) (until time.Time, yet bool) {
	for _, turn := range g.run {
		if k := c.called(lk.name, turn); k != nil && k.op == "lockall" {
			until, yet = stage.Later(until, k.endedAt), yet || !k.done
		}
	}
	for k := range c.calls {
		yet = yet || g.run == nil && k.op == "lockall" && k.name == lk.name
	}
	return until, yet
}

// unmarked is until when late requests of a call that ended at that time may be executed, because
// the server's clock has stepped over the mark that its ticket has left; zero: never.
func (lk *lock) unmarked(ended time.Time) (until time.Time) {
	if lk.steppedSince(ended) <= lua.MarkTTL-latest {
		return until
	}
	return lk.steps[len(lk.steps)-1].at.Add(latest)
}

// leaseOf returns the lease that a ticket asks for.
func leaseOf(ticket string) time.Duration {
	part := strings.Split(ticket, ":")
	ms, _ := strconv.ParseInt(part[2], 10, 64)
	return time.Duration(ms) * time.Millisecond
}

// told judges the reason that an Unlock gives (6).
func (r *referee) told(b *belief, err error) {
	switch {
	case err == nil || b.by.closing || b.by.crashed:
	// After the lease's deadline there is nothing to give back.
	case passes(err) && !errors.Is(err, context.DeadlineExceeded) && time.Now().Before(b.lease.Deadline()):
		r.violated(6, "%s: %s gave back token %d, and that failed for what passes: %v", b.lk.name, b.by.name, b.token, err)
	case errors.Is(err, fairlock.ErrLost) && strings.Contains(err.Error(), "administrator forced"):
		if g := b.lk.grants[b.token]; g == nil || g.forced.IsZero() {
			r.violated(6, "%s: %s lost token %d by a force that there was not: %v", b.lk.name, b.by.name, b.token, err)
		}
	}
}

// passes reports whether an error is the server's, for a state that passes.
func passes(err error) bool {
	for _, prefix := range passing {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// size judges that a token is not ahead of the server's clock (3). A larger token must be an
// invention.
func (l *look) size(lk *lock, is *state) {
	w := l.r.w
	w.farthest = stage.Later(w.farthest, is.at)
	if most := w.farthest.Add(time.Second).UnixMicro(); is.token > most || is.last > most {
		if !lk.inflated {
			lk.inflated = true
			l.r.violated(3, "%s: the %s of %s left token %s, which is ahead of the server's clock",
				lk.name, l.verb, l.by.name, strconv.FormatInt(max(is.token, is.last), 10))
		}
	}
}
