package rules

import (
	"time"

	"github.com/fairlock/locks/lua"
)

// State is where a Hold stands in its life.
type State int8

// The states of a Hold.
const (
	Held State = iota
	Releasing
	Lost
	Over
)

// mostRenewed is how long a watchdog waits at most, however long its lease: the server remembers
// for a minute that an ownership was forced, and its token for ten at least. A renewal must come
// before it has forgotten.
const mostRenewed = 50 * time.Second

// syncWithin is how soon the record shows a changed depth.
const syncWithin = 500 * time.Millisecond

// keptFor is for how long a renewal may leave the token key alone.
const keptFor = 5 * time.Minute

// renewedAfter is how long after a lease was written it is renewed.
func renewedAfter(lease time.Duration) time.Duration { return min(lease/3, mostRenewed) }

// Hold is a ticket that has the lock.
type Hold struct {
	State   State
	Asked   time.Duration // by its ticket
	Fixed   bool          // that lease is not renewed
	Term    Term          // of what the record was last written for
	Trusted time.Time     // trust ends
	Lease   time.Duration // what a renewal asks for; 0: none is sent
	RenewAt time.Time     // the next renewal goes out; zero: none
	SyncAt  time.Time     // the record is told another depth; zero: it knows
	Kept    time.Time     // the token key was last kept alive
	Told    int32         // the depth that the record shows
	Depth   int32         // how many Leases there are on it
	Dropped int32         // how many of those were dropped without Unlock
	Unsure  bool          // a release that was sent under trust was not answered
}

// Begin is the Hold of a ticket that asks for that lease and was granted the lock for the term.
func Begin(t Term, asked time.Duration, fixed bool, now time.Time) Hold {
	h := Hold{Asked: asked, Fixed: fixed, Term: t, Trusted: t.TrustEnds(), Told: 1, Kept: now}
	switch {
	case !fixed:
		h.Lease = asked
		h.RenewAt = t.Expires.Add(renewedAfter(t.Span) - t.Span)
	case h.Claimed(): // a fixed lease is confirmed before anybody has it
		h.RenewAt = now
	}
	return h
}

// Claimed reports whether the record was written for a claim, which is shorter than the lease.
func (h *Hold) Claimed() bool { return h.Term.Span < h.Asked }

// Live reports whether the lock can be trusted.
func (h *Hold) Live(now time.Time) bool { return h.State == Held && !Passed(h.Trusted, now) }

// Leasable reports whether a call may have a Lease on the hold: not after its Locker was closed,
// which has ended all contexts there were and renews nothing.
func (h *Hold) Leasable(closed bool) bool { return h.State == Held && !closed }

// Expires reports whether the trust has ended by itself: Lose must follow.
func (h *Hold) Expires(now time.Time) bool { return h.State == Held && Passed(h.Trusted, now) }

// Due is when the hold next needs something: a renewal, a word on its depth, or the end of its
// trust.
func (h *Hold) Due() time.Time {
	at := h.Trusted
	for _, due := range [...]time.Time{h.RenewAt, h.SyncAt} {
		if !due.IsZero() && due.Before(at) {
			at = due
		}
	}
	return at
}

// Renews reports whether a renewal goes out now. What is due soon goes along, so leases that were
// taken at random times come to share their requests. An unanswered renewal is sent again beside
// the first.
func (h *Hold) Renews(now time.Time) bool {
	span := h.Term.Span
	if h.Lease > 0 {
		span = min(span, h.Lease)
	}
	soon := now
	if h.Lease > 0 {
		soon = now.Add(span / 15)
	}
	renews := !h.RenewAt.IsZero() && !h.RenewAt.After(soon)
	syncs := !h.SyncAt.IsZero() && !h.SyncAt.After(now)
	if !renews && !syncs {
		return false
	}
	h.SyncAt = time.Time{}
	h.RenewAt = now.Add(max(span/10, 10*time.Millisecond))
	return true
}

// Renewed takes in the answer to a renewal that was sent then and told that depth: how long the
// record still has the hold, 0 if it does not. It reports whether the server has to be asked what
// became of the hold, or to keep the token key alive: by a reassert.
func (h *Hold) Renewed(sent time.Time, left time.Duration, depth int) (reassert bool) {
	if h.State != Held {
		return false
	}
	if left <= 0 || sent.Sub(h.Kept) > max(keptFor, h.Asked) {
		return true
	}
	h.prolong(sent, left, depth)
	return false
}

// Reasserted is Renewed for a reassert that found the hold, or wrote it again.
func (h *Hold) Reasserted(sent time.Time, left time.Duration, depth int) {
	if h.State == Held {
		h.Kept = sent
		h.prolong(sent, left, depth)
	}
}

// prolong takes in that the record has the hold for longer. Deadlines only grow, so an older answer
// that comes later changes nothing.
func (h *Hold) prolong(sent time.Time, left time.Duration, depth int) {
	t := Term{left, sent.Add(left)}
	if t.Expires.After(h.Term.Expires) {
		h.Term = t
	}
	if trusted := t.TrustEnds(); trusted.After(h.Trusted) {
		h.Trusted = trusted
	}
	h.Told = int32(depth) //nolint:gosec // memory is full before that overflows
	h.RenewAt, h.SyncAt = time.Time{}, time.Time{}
	if h.Lease > 0 && h.Dropped < max(1, h.Depth) {
		h.RenewAt = sent.Add(renewedAfter(h.Lease))
	}
	h.deepened(sent)
}

// LeaseGiven takes in that there is one more Lease on the hold.
func (h *Hold) LeaseGiven(now time.Time) {
	h.Depth++
	h.deepened(now)
}

// LeaseEnded takes in that one of the Leases was unlocked. It reports whether that was the last:
// Release must follow.
func (h *Hold) LeaseEnded(dropped bool, now time.Time) (last bool) {
	h.Depth--
	if dropped {
		h.Dropped--
	}
	if h.Depth == 0 {
		return true
	}
	h.deepened(now)
	return false
}

// LeaseDropped takes in that one of the Leases was dropped without Unlock. A hold of which all were
// is renewed no more.
func (h *Hold) LeaseDropped() {
	if h.Dropped++; h.Dropped == h.Depth {
		h.RenewAt, h.SyncAt, h.Lease = time.Time{}, time.Time{}, 0
	}
}

// deepened has the record show the depth before long. If the depth is soon what the record shows
// again, nothing is sent. A hold that has no Lease yet is shown as one that has.
func (h *Hold) deepened(now time.Time) {
	if max(1, h.Depth) == h.Told || h.Lease == 0 && h.Dropped > 0 {
		h.SyncAt = time.Time{}
	} else if h.SyncAt.IsZero() {
		h.SyncAt = now.Add(syncWithin)
	}
}

// FallsShort reports whether the hold has less than a further Lease asks for: that lease, or a
// watchdog unless it is fixed. A longer lease is asked for with the next renewal.
func (h *Hold) FallsShort(lease time.Duration, fixed bool, now time.Time) bool {
	if fixed {
		return h.Trusted.Sub(now)+Margin(lease) < lease
	}
	if h.Lease == 0 {
		return true
	}
	h.Lease = max(h.Lease, lease)
	return false
}

// TakenOver has a hold of a fixed lease be renewed, which was extended to that lease just now.
func (h *Hold) TakenOver(lease time.Duration) {
	if h.State == Held {
		h.Lease = max(h.Lease, lease)
		h.RenewAt = h.Term.Expires.Add(renewedAfter(h.Lease) - h.Term.Span)
	}
}

// Doubted takes in whom an answer of that time, by the server's clock, names as the lock's holder:
// nobody, if the server has forgotten. If that is not the owner of the hold, which began then, a
// renewal goes out at once, and the hold comes back or is lost. It reports whether one does.
func (h *Hold) Doubted(holder, owner string, at, began lua.Micros, underway bool, now time.Time) bool {
	switch {
	case h.State != Held || holder == owner || underway:
		return false
	case holder != "" && at < began+1000: // which is in whole milliseconds
		return false
	case h.Lease == 0 && !h.Fixed: // it was dropped
		return false
	}
	h.RenewAt = now.Add(time.Millisecond) // those of many locks share a request
	return true
}

// Lose ends the trust in a hold that expired, vanished or was forced. It reports whether the ticket
// has to leave. If a request of it is open, that could prolong what nobody holds, or put it back in
// line. At the server's word it leaves whatever is known of it: a heartbeat that came after a force
// has put it in line again, or has even taken the lock. Else its lease ends it for certain.
func (h *Hold) Lose(why Why, now time.Time, open bool) (leave bool) {
	h.State = Lost
	if now.Before(h.Trusted) {
		h.Trusted = now
	}
	return open || why != Expired
}

// Release ends the trust in a hold on which nobody has a Lease any more. A leave must follow.
func (h *Hold) Release() { h.State = Releasing }

// Leave is the hold's part of a leave that is sent now.
func (h *Hold) Leave(ticket lua.Ticket, token int64, open bool) lua.LeaveTicket {
	return lua.LeaveTicket{Ticket: ticket, Token: token, Retire: open}
}

// Outcome is what became of a release.
type Outcome int8

// The outcomes of a release.
const (
	Clean    Outcome = iota // the hold was there until then; the next in line has the lock
	Retry                   // it is not known yet: the release is sent again
	Missing                 // the hold was not there: it was lost before. Why says how
	Refusal                 // the release failed for good; the lock stays until its lease ends
	TakeBack                // the lease has ended without an answer: a leave is repeated in the background
)

// Released takes in the answer to a release, or that it failed with err, at now. trusted says that
// it was sent while the lock was trusted, stop that it is not to be repeated.
func (h *Hold) Released(status lua.Status, err error, trusted bool, now time.Time, stop bool) (Outcome, Why) {
	over := !now.Before(h.Term.Expires)
	switch {
	case err == nil && status == lua.Held:
		return h.over(Clean, 0)
	case err == nil && !h.Unsure:
		return h.over(Missing, Vanished)
	case err == nil && over:
		return h.over(Missing, Uncertain)
	case err == nil: // a release that went unanswered was executed
		return h.over(Clean, 0)
	case stop || !Retryable(err):
		return h.over(Refusal, Failed)
	case over:
		// A server that has lost the hold, and learns of it from others, keeps the lock for its
		// owner for another lease.
		return h.over(TakeBack, Failed)
	}
	h.Unsure = h.Unsure || trusted && lua.Unanswered(err)
	return Retry, 0
}

func (h *Hold) over(o Outcome, why Why) (Outcome, Why) {
	h.State = Over
	return o, why
}
