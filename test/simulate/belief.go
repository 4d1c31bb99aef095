package simulate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/simulate/stage"
)

// belief is a client's trust in a lock. A belief begins when the call returns. It ends when the
// client gives the lock up or may no longer trust it, whether or not the client looks.
type belief struct {
	lk         *lock
	by         *client
	owner      string
	token      int64
	lease      *fairlock.Lease
	nested     bool
	inDo       bool      // Do gives it back
	start, end time.Time // end is zero while it lasts
	late       bool      // Unlock was called after the trust had ended

	// The trust of a user that looks at the contexts only: the Lease's, and the one inside Do.
	contexts int       // how many of the contexts have not ended
	dark     time.Time // when the last of the contexts ended
	left     time.Time // when its user gave the lock up; zero while the user works under it
	over     bool      // the user gave the lock up, and the outcome is known
	dim      bool      // the referee has objected to this belief
}

// until returns when a belief ends unless something happens.
func (b *belief) until(w *World) time.Time {
	if !b.end.IsZero() {
		return b.end
	}
	return b.lease.Deadline().Add(w.plan.Break.Trust)
}

// believe begins a belief: a call returned with a Lease.
func (r *referee) believe(by *client, name string, lease *fairlock.Lease, nested bool) *belief {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	lk := r.locks[name]
	b := &belief{lk: lk, by: by, owner: lease.Owner(), token: lease.Token(), lease: lease, nested: nested, start: time.Now()}
	by.latest.Store(lease)
	r.w.history.Note(by.name, "has %s, token %d, owner %s, until %v", name, b.token, b.owner, lease.Deadline().Sub(r.w.start))
	r.beliefs = append(r.beliefs, b)
	r.stats.Leases++
	g := lk.grants[b.token]
	if !nested && g != nil && g.most > 0 && b.owner != stage.CallOf(g.ticket) {
		r.stats.Turns++
	}
	switch {
	case g == nil:
		r.violated(1, "%s: %s believes in token %d, which was never given", name, by.name, b.token)
	case !g.begins(b.owner, b.token):
		r.violated(2, "%s: %s has the turn of another, token %d", name, b.owner, b.token)
	case !g.believed && stage.ClientOf(g.ticket) == by.uuid: // later calls share the grant by the owner's name
		g.believed = true
		k := by.called(name, g.ticket)
		// Another call of the same owner may have returned first.
		kept := k != nil && (k.kept != 0 || k.inside > 0)
		if d := b.start.Sub(g.at); r.calm() && d > r.promptly() && g.at.After(by.link.tearing) && !kept {
			r.violated(4, "%s: %s learned of its grant only after %v, in calm weather", name, by.name, d)
		}
	}
	if r.w.plan.Break.Trust == 0 {
		context.AfterFunc(lease.Context(), func() { r.ends(b) })
	}
	r.follows(lease.Context(), b)
	r.uses(b)
	r.had(b)
	r.writes(b)
	r.trust()
	return b
}

// writes judges the owner's use of what the lock protects: the resource must accept the token (3).
func (r *referee) writes(b *belief) {
	switch {
	case b.token >= b.lk.fence:
		b.lk.fence = b.token
	case b.until(r.w).After(time.Now()) && b.end.IsZero() && !r.exempt(b, b.lk.fence):
		r.violated(3, "%s: %s has trust in token %d, but the resource has seen %d", b.lk.name, b.by.name, b.token, b.lk.fence)
	default:
		r.stats.Refused++
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

// ends ends a belief now, or at the earlier time when its trust ended.
func (r *referee) ends(b *belief) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.endsNow(b)
}

func (r *referee) endsNow(b *belief) {
	if !b.end.IsZero() {
		return
	}
	end := time.Now()
	if until := b.until(r.w); until.Before(end) {
		end = until
	}
	b.end = end
	r.w.history.Note(b.by.name, "no longer has %s, token %d", b.lk.name, b.token)
	r.judge(b)
}

// unlocks notes that Unlock is about to be called.
func (r *referee) unlocks(b *belief) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	b.left = time.Now()
	// Closing the Locker does not count: that ends the trust, not the hold.
	b.late = !b.left.Before(b.lease.Deadline())
	r.endsNow(b)
}

// unlocked judges what Unlock said (6).
func (r *referee) unlocked(b *belief, err error) {
	if alter := r.w.plan.Break.Unlock; alter != nil {
		err = alter(err)
	}
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.history.Note(b.by.name, "unlocked %s, token %d: %v", b.lk.name, b.token, err)
	r.finishes(b)
	r.told(b, err)
	clean := b.hasReleased()
	forgotten := b.lk.lost.After(b.start.Add(-time.Minute)) // then the record does not show the release
	switch {
	case b.nested:
	case err == nil && b.late:
		r.violated(6, "%s: %s unlocked token %d cleanly after its trust had ended", b.lk.name, b.by.name, b.token)
	// The answer to this owner's release was lost. The first attempt may be the reason why the
	// owner holds nothing any more; but the server remembers a force for a minute.
	case err == nil && !clean && b.lk.unsure[b.owner] && !b.lk.grants[b.token].isForced():
	case err == nil && !clean && r.passed(b):
	case err == nil && !clean && !forgotten && single(b.owner):
		r.violated(6, "%s: %s unlocked token %d cleanly, but the server has not released it", b.lk.name, b.by.name, b.token)
	case err != nil && !b.late && r.calm():
		r.violated(6, "%s: %s held token %d in calm weather and was told: %v", b.lk.name, b.by.name, b.token, err)
	case b.late && !errors.Is(err, fairlock.ErrLost) && !errors.Is(err, fairlock.ErrNotHeld):
		r.violated(6, "%s: the trust of %s in token %d had ended, and it was told: %v", b.lk.name, b.by.name, b.token, err)
	}
}

// isForced reports whether a force, if it was the end of g, is less than a minute ago.
func (g *grant) isForced() bool {
	return g != nil && !g.forced.IsZero() && time.Since(g.forced) < lua.MarkTTL
}

// single reports whether an owner is a single call: client:counter.
func single(owner string) bool { return stage.ClientOf(owner) != owner }

// trust judges all present beliefs (1).
func (r *referee) trust() {
	now := time.Now()
	kept := r.beliefs[:0]
	for i, b := range r.beliefs {
		until := b.until(r.w)
		if !b.end.IsZero() && now.Sub(b.end) > time.Minute && (!b.dark.IsZero() || !b.left.IsZero()) {
			continue
		}
		kept = append(kept, b)
		r.outlives(b)
		if !b.end.IsZero() || !until.After(now) {
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

// judge compares a belief that has ended with all other beliefs of its time.
func (r *referee) judge(b *belief) {
	for _, other := range r.beliefs {
		if other != b && other.lk == b.lk {
			r.compare(b, other)
		}
	}
}

// compare judges two beliefs in one lock. Beliefs of different owners must not have an instant in
// common.
func (r *referee) compare(a, b *belief) {
	if a.owner == b.owner {
		return
	}
	if g, h := a.lk.grants[a.token], b.lk.grants[b.token]; g != nil && h != nil && (g.at.After(h.at) || g == h && a.token > b.token) {
		a, b = b, a
	}
	from, to := stage.Later(a.start, b.start), stage.Earlier(stage.Later(a.until(r.w), a.lasts()), stage.Later(b.until(r.w), b.lasts()))
	if !from.Before(to) || r.exempt(a, b.token) && r.inTime(a, from) {
		return
	}
	r.violated(1, "%s: both %s (token %d) and %s (token %d) trust it from %v to %v", a.lk.name, a.by.name, a.token, b.by.name, b.token,
		from.Sub(r.w.start), to.Sub(r.w.start))
}

// exempt reports whether a belief may overlap with the belief in a later token.
func (r *referee) exempt(b *belief, token int64) bool {
	g, next := b.lk.grants[b.token], b.lk.grants[token]
	if g == nil || next == nil {
		return false
	}
	switch {
	// Force breaks invariant 1 by design. inTime says how soon that must be over.
	case !g.forced.IsZero() && !next.at.Before(g.forced):
		return true
	// The server's clock was set forward by more than the margin since the lease was last written.
	// For a claim, what counts is when its waiter was last told the time: a message that is late by
	// more than the step does not show the step.
	case g.stepped > fairlock.Margin(g.written), slices.Contains(next.excused, b.token):
		return true
	// Data was lost, and a newcomer came before any client that knew the holder.
	case slices.ContainsFunc(b.lk.broken, func(lost time.Time) bool { return g.at.Before(lost) && lost.Before(next.at) }):
		return true
	// Data was lost, the clock was set back, and a client came that knew a larger token: the record
	// was a ghost's.
	case g.low:
		return true
	// Data was lost, and the lock was kept for as long as the lease of the clients that knew the
	// holder. The holder's own lease is longer, and it did not come back in time.
	case slices.ContainsFunc(b.lk.lapses, func(l loss) bool {
		return g.at.Before(l.lost) && l.lost.Before(next.at) && !l.back[b.by.uuid]
	}):
		return true
	}
	return false
}

// inTime reports whether a forced holder could not know of the force yet. A holder that nobody
// could tell always passes.
func (r *referee) inTime(b *belief, from time.Time) bool {
	g := b.lk.grants[b.token]
	if g.forced.IsZero() || !g.told {
		return true
	}
	since, able := b.by.link.able()
	return !able || since.After(g.forced.Add(-5*time.Second)) || from.Sub(g.forced) < r.promptly() ||
		!g.forced.After(b.by.link.tearing) // the news of the force waits behind a torn message
}
