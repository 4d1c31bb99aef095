package majority

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairlock/locks/quorum"
	"github.com/fairlock/locks/test/simulate/stage"
)

// belief is a client's trust in a lock. A belief begins when the call returns. It ends when the
// client gives the lock up or may no longer trust it, whether or not the client looks.
type belief struct {
	lk         *lock
	by         *client
	k          *call
	owner      string // the call that has the lock
	token      int64
	lease      *quorum.Lease
	nested     bool
	inDo       bool          // Do gives it back
	start, end time.Time     // end is zero while it lasts
	left       time.Time     // when its user gave the lock up
	late       bool          // that was after the trust had ended
	trusted    time.Time     // until when it would have been
	kept       time.Duration // for how long the user's own code had run in the actor's calls by then
	expired    bool          // the referee has judged its end
	dim        bool          // the referee has objected to its context
	said       error         // what Unlock said
}

// until returns when a belief ends unless something happens.
func (b *belief) until(w *World) time.Time {
	if !b.end.IsZero() {
		return b.end
	}
	return b.lease.Deadline().Add(w.plan.Break.Trust)
}

// believe begins a belief: a call returned with a Lease. outer is the one in which the call is
// nested, or nil.
func (r *referee) believe(k *call, lease *quorum.Lease, outer *belief) *belief {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	lk, c := r.locks[k.name], k.actor.c
	b := &belief{lk: lk, by: c, k: k, owner: lease.Owner(), token: lease.Token(), lease: lease, start: time.Now()}
	b.nested = outer != nil && outer.owner == b.owner
	r.w.history.Note(c.name, "has %s, token %d, owner %s, until %v", k.name, b.token, b.owner, lease.Deadline().Sub(r.w.start))
	r.beliefs = append(r.beliefs, b)
	r.stats.Leases++
	k.leased = true
	if !b.nested {
		r.stats.Owned++
		r.useful(b)
		if !k.queued.IsZero() {
			r.stats.Waited++
		}
		r.prompt(b)
		r.wanted(b)
		r.order(lk, k)
	}
	r.had(b)
	r.writes(b)
	r.trust()
	return b
}

// had judges a Lease that a call returned after its Locker was closed (7).
func (r *referee) had(b *belief) {
	if closed := b.by.closed; !closed.IsZero() && time.Since(closed) > stage.AtOnce {
		r.violated(7, "%s: %s is given token %d, and its Locker is closed since %v", b.lk.name, b.by.name, b.token, time.Since(closed))
	}
}

// shutOut judges a nested call that failed: in calm weather a holder with trust has a further Lease
// (4), unless the context that it has from its own caller has ended.
func (r *referee) shutOut(ctx context.Context, b *belief, err error) {
	trusted := b.lease.Err() == nil && ctx.Err() == nil
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if trusted && r.calm() && b.end.IsZero() && b.until(r.w).After(time.Now()) && !b.by.closing && !b.by.crashed && b.by.paused == nil {
		r.violated(4, "%s: a nested call of %s failed under token %d, which is trusted: %v", b.lk.name, b.by.name, b.token, err)
	}
}

// uses judges that the resource accepts the holder's token.
func (r *referee) uses(b *belief) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.writes(b)
}

// writes judges the owner's use of what the lock protects: the resource must accept the token (3).
func (r *referee) writes(b *belief) {
	trusted := b.end.IsZero() && b.until(r.w).After(time.Now())
	switch lk := b.lk; {
	case b.token > lk.fence || b.token == lk.fence && b.owner == lk.fenced:
		if b.token > lk.fence {
			lk.since = time.Now()
		}
		lk.fence, lk.fenced = b.token, b.owner
	case trusted && r.w.plan.Apart && r.forgot(lk):
		lk.fence, lk.fenced, lk.since = b.token, b.owner, time.Now() // see package quorum
	case trusted && lk.forced[b.owner].IsZero():
		r.violated(3, "%s: %s has trust in token %d, but the resource has seen %d", lk.name, b.by.name, b.token, lk.fence)
	default:
		r.stats.Refused++
	}
}

// forgot reports whether a node has lost data since the resource saw the largest token: a node of
// another clock may then give smaller ones.
func (r *referee) forgot(lk *lock) bool {
	return slices.ContainsFunc(r.w.nodes, func(n *node) bool { return n.lost.After(lk.since) })
}

// endsNow ends a belief now, or at the earlier time when its trust ended. World.mu must be held.
func (r *referee) endsNow(b *belief) {
	if !b.end.IsZero() {
		return
	}
	b.end = stage.Earlier(time.Now(), b.until(r.w))
	b.lk.free = stage.Later(b.lk.free, b.end)
	r.w.history.Note(b.by.name, "no longer has %s, token %d", b.lk.name, b.token)
	for _, other := range r.beliefs {
		if other != b && other.lk == b.lk {
			r.compare(b, other)
		}
	}
}

// unlocks notes that Unlock is about to be called.
func (r *referee) unlocks(b *belief) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	b.left = time.Now()
	b.k.left = b.left
	b.trusted = b.lease.Deadline()
	b.late = !b.left.Before(b.trusted)
	b.kept = b.k.actor.kept
	r.endsNow(b)
}

// unlocked judges what Unlock said (6).
func (r *referee) unlocked(b *belief, err error) {
	if alter := r.w.plan.Break.Unlock; alter != nil {
		err = alter(err)
	}
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	b.said = err
	r.w.history.Note(b.by.name, "unlocked %s, token %d: %v", b.lk.name, b.token, err)
	switch {
	case b.nested:
	case err == nil && b.late:
		r.violated(6, "%s: %s unlocked token %d cleanly after its trust had ended", b.lk.name, b.by.name, b.token)
	case err == nil && !r.wasForced(b) && r.robbed(b) > len(r.w.nodes)-r.w.need():
		r.violated(6, "%s: %s unlocked token %d cleanly, and %d nodes had given their votes to others at one time", b.lk.name, b.by.name, b.token, r.robbed(b))
	case b.k.actor.kept > b.kept && errors.Is(err, quorum.ErrLost): // its lease ended while the user's own code kept the Unlock
	case err != nil && !b.late && r.calm() && !r.closes(b, err):
		r.violated(6, "%s: %s held token %d in calm weather and was told: %v", b.lk.name, b.by.name, b.token, err)
	case errors.Is(err, quorum.ErrLost) && time.Now().Before(b.trusted) && !r.wasForced(b) && !r.closes(b, err):
		r.violated(6, "%s: %s gave back token %d while it was trusted, and was told: %v", b.lk.name, b.by.name, b.token, err)
	case b.late && !errors.Is(err, quorum.ErrLost) && !errors.Is(err, quorum.ErrNotHeld):
		r.violated(6, "%s: the trust of %s in token %d had ended, and it was told: %v", b.lk.name, b.by.name, b.token, err)
	}
	r.finishes(b)
}

// wasForced reports whether somebody ended a hold at a node by force, less than a lease before its
// user gave it up. The holder may not have heard of it. Then it may win back a node that has lost
// its data since, and with it the force.
func (r *referee) wasForced(b *belief) bool {
	at := b.lk.forced[b.owner]
	lost := func(n *node) bool { return n.lost.After(at) }
	return !at.IsZero() && (b.left.Sub(at) < r.w.plan.Longest || slices.ContainsFunc(r.w.nodes, lost))
}

// closes reports whether an error is that of a Locker that was closed under its holder.
func (r *referee) closes(b *belief, err error) bool {
	return b.by.closing && (errors.Is(err, quorum.ErrLost) || errors.Is(err, quorum.ErrNotHeld))
}

// robbed counts the nodes that had at one instant given their vote to somebody else, while a belief
// lasted and after it had theirs. A decided call may get a vote back.
func (r *referee) robbed(b *belief) (most int) {
	for _, all := range b.lk.votes {
		for _, v := range all {
			if !v.at.After(b.start) || !v.at.Before(b.left) {
				continue
			}
			count := 0
			for _, others := range b.lk.votes {
				if b.isRobbed(others, v.at) {
					count++
				}
			}
			most = max(most, count)
		}
	}
	return most
}

// isRobbed reports whether a node with these votes had then given to somebody else what it gave to
// b.
func (b *belief) isRobbed(all []vote, then time.Time) (robbed bool) {
	had := false
	for _, v := range all {
		switch {
		case v.at.After(then):
		case stage.CallOf(v.ticket) == b.owner:
			had, robbed = true, false
		case had && !v.again: // what a node with old data shows is not given
			robbed = v.at.After(b.start)
		}
	}
	return robbed
}

// finished notes that a Lease is no longer in use.
func (r *referee) finished(b *belief) {
	if b == nil {
		return
	}
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.finishes(b)
}

func (r *referee) finishes(b *belief) { b.k.endedAt, b.k.returned = time.Now(), true }

// trust judges all present beliefs (1).
func (r *referee) trust() {
	now := time.Now()
	kept := r.beliefs[:0]
	for i, b := range r.beliefs {
		if !b.end.IsZero() && now.Sub(b.end) > time.Minute {
			continue
		}
		kept = append(kept, b)
		until := b.until(r.w)
		if b.end.IsZero() && until.Before(now) {
			r.expires(b, until)
			continue
		}
		if !b.end.IsZero() {
			continue
		}
		for _, other := range r.beliefs[i+1:] {
			if other.lk == b.lk && other.end.IsZero() && other.until(r.w).After(now) {
				r.compare(b, other)
			}
		}
	}
	clear(r.beliefs[len(kept):])
	r.beliefs = kept
}

// expires judges that the context of a Lease ends with its trust (1).
func (r *referee) expires(b *belief, until time.Time) {
	b.lk.free = stage.Later(b.lk.free, until)
	r.keptUp(b, until)
	over := time.Since(stage.Later(until, b.by.stood))
	if b.dim || over < stage.AtOnce || b.by.paused != nil || b.by.crashed || b.lease.Context().Err() != nil && over > r.w.plan.Break.Context || r.w.plan.Break.Trust > 0 {
		return
	}
	b.dim = true
	r.violated(1, "%s: the context of %s with token %d lives, and it may be trusted no more since %v", b.lk.name, b.by.name, b.token, over)
}

// keptUp judges that a holder loses no lock while it reaches a majority (4): renewals that fail are
// sent again after a tenth of the lease. A node whose vote is withheld counts as one that is not
// reached.
func (r *referee) keptUp(b *belief, until time.Time) {
	if b.expired {
		return
	}
	b.expired = true
	c, enough := b.by, until.Add(-b.by.lease/10-time.Second)
	since, able := c.reaches(r.w.need(), func(l *link) bool { return l.n.lost.Before(b.start) && !r.withheld(b, l.n, enough) })
	if !able || b.nested || b.k.fixed || c.closing || c.crashed || c.paused != nil || !b.lk.forced[b.owner].IsZero() || r.w.plan.Break.Trust > 0 {
		return
	}
	if stage.Later(stage.Later(since, c.stood), b.start).Before(enough) {
		r.violated(4, "%s: %s lost token %d though it has reached a majority since %v", b.lk.name, c.name, b.token, since.Sub(r.w.start))
	}
}

// withheld reports whether a client has the node's vote that does not reach the node, or did not
// then: nobody can ask it for the vote, which lasts a claim. The same goes for a vote that was given
// back before the node came back with old data.
func (r *referee) withheld(b *belief, n *node, then time.Time) bool {
	ticket := b.lk.views[n.i].ticket
	if ticket == "" || stage.CallOf(ticket) == b.owner {
		return false
	}
	if k := r.callOf(b.lk, ticket); k != nil && !k.left.IsZero() && n.lost.After(k.left) {
		return true
	}
	by := r.w.byID(stage.ClientOf(ticket))
	if by == nil {
		return true
	}
	since, able := by.links[n.i].able()
	return !able || by.paused != nil || stage.Later(since, by.stood).After(then)
}

// compare judges two beliefs in one lock. Beliefs of different owners must not have an instant in
// common, but for a holder that somebody forced, and only until its lease has ended.
func (r *referee) compare(a, b *belief) {
	if a.owner == b.owner {
		return
	}
	if a.token > b.token {
		a, b = b, a
	}
	from, to := stage.Later(a.start, b.start), stage.Earlier(a.until(r.w), b.until(r.w))
	if !from.Before(to) {
		return
	}
	if forced := a.lk.forced[a.owner]; !forced.IsZero() && from.Sub(forced) < r.w.plan.Longest {
		return
	}
	r.violated(1, "%s: both %s (token %d) and %s (token %d) trust it from %v to %v", a.lk.name, a.by.name, a.token, b.by.name, b.token,
		from.Sub(r.w.start), to.Sub(r.w.start))
}
