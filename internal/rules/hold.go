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

// mostRenewed is the longest time from one renewal to the next, however long the lease. The server
// remembers for a minute that an ownership was forced, and for ten minutes or more which token was
// given. A renewal must come before the server has forgotten either.
const mostRenewed = 50 * time.Second

// syncWithin is how soon the record shows a changed depth.
const syncWithin = 500 * time.Millisecond

// renewedAfter is the time from the writing of a lease to its renewal.
func renewedAfter(lease time.Duration) time.Duration { return min(lease/3, mostRenewed) }

// Hold is a ticket that has the lock.
type Hold struct {
	State     State
	Asked     time.Duration // the lease that the ticket asked for
	Longest   time.Duration // the longest lease that any request may have asked for
	AskedEnds time.Time     // the end of the lease that the ticket asked for, if nothing prolongs it
	Beyond    bool          // a request may have asked for a later end than that, or an answer told one
	Fixed     bool          // the call asked for a lease that is not renewed
	Term      Term          // what the record was last written for
	TrustEnds time.Time     // when trust ends
	Lease     time.Duration // what a renewal asks for; 0: no watchdog renews the hold
	RenewAt   time.Time     // when the next renewal goes out; zero: none does
	SyncAt    time.Time     // when the record is told another depth; zero: nothing to tell
	DoubtAt   time.Time     // the last doubt that no later renewal has settled; zero: there is none
	TokenEnds time.Time     // until when the token's key lives at least
	Began     time.Time
	Told      int32 // the depth that the record shows
	Depth     int32 // how many Leases there are on the hold
	Dropped   int32 // how many of those were dropped without Unlock
	Unsure    bool  // a release that was sent under trust was not answered
}

// Begin returns the Hold of a ticket that was granted the lock for the term t. asked is the lease
// that the ticket asked for; fixed says that this lease is not renewed. The term is longer than the
// lease if the server's clock was set back before it told the grant.
func Begin(t Term, asked time.Duration, fixed bool, now time.Time) Hold {
	tokenEnds := t.Ends.Add(lua.TokenTTL - t.Span)
	h := Hold{Asked: asked, Longest: asked, AskedEnds: t.Ends.Add(asked - t.Span), Beyond: t.Span > asked, Fixed: fixed, Term: t, TrustEnds: t.TrustEnds(), Told: 1, TokenEnds: tokenEnds, Began: now}
	switch {
	case !fixed:
		h.Lease = asked
		h.RenewAt = t.Ends.Add(renewedAfter(min(t.Span, asked)) - t.Span)
	case h.Claimed(): // a fixed lease is confirmed before anybody has it
		h.RenewAt = now
	}
	return h
}

// Claimed reports whether the record was written for a claim, which is shorter than the lease.
func (h *Hold) Claimed() bool { return h.Term.Span < h.Asked }

// Live reports whether the lock can be trusted.
func (h *Hold) Live(now time.Time) bool { return h.State == Held && !Passed(h.TrustEnds, now) }

// Leasable reports whether a call may have a Lease on the hold. No call may once the Locker is
// closed: all contexts have ended then, and nothing is renewed.
func (h *Hold) Leasable(closed bool) bool { return h.State == Held && !closed }

// TrustOver reports whether trust has ended by itself. If so, Lose must follow.
func (h *Hold) TrustOver(now time.Time) bool { return h.State == Held && Passed(h.TrustEnds, now) }

// Due is when the hold next needs something: a renewal, a word on its depth, or the end of its
// trust.
func (h *Hold) Due() time.Time {
	at := h.TrustEnds
	for _, due := range [...]time.Time{h.RenewAt, h.SyncAt} {
		if !due.IsZero() && due.Before(at) {
			at = due
		}
	}
	return at
}

// StartRenewal reports whether a renewal goes out now, and plans the next. What is due soon goes
// along, so leases that were taken at random times come to share their requests. An unanswered
// renewal is sent again beside the first.
func (h *Hold) StartRenewal(now time.Time) bool {
	span, soon := h.Term.Span, now
	if h.Lease != 0 {
		span = min(span, h.Lease)
		soon = now.Add(min(span/15, mostRenewed/5))
	}
	renews := !h.RenewAt.IsZero() && !h.RenewAt.After(soon)
	syncs := !h.SyncAt.IsZero() && !h.SyncAt.After(now)
	if !renews && !syncs {
		return false
	}
	h.SyncAt = time.Time{}
	h.again(now, span)
	return true
}

// Asks takes in that a request for another lease goes out.
func (h *Hold) Asks(lease time.Duration, now time.Time) {
	h.Longest = max(h.Longest, lease)
	h.Beyond = h.Beyond || Later(now.Add(lease), h.AskedEnds)
}

// ForRenewal returns the lease that a renewal asks for; 0: none. If an Extend, a nested call or a
// clock that was set back has made the hold last longer, that is what is left of it: a server that
// has lost it must keep the hold for as long as it is trusted. It is a tenth of the margin less, so
// that a request that takes its time does not make the hold last even longer.
func (h *Hold) ForRenewal(now time.Time) time.Duration {
	if h.Beyond {
		return max(h.Lease, Until(h.Term.Ends, now)-Margin(h.Term.Span)/10)
	}
	return h.Lease
}

// Woke takes in that the machine was suspended: the renewals that were due meanwhile go out now.
func (h *Hold) Woke(now time.Time) {
	if !h.RenewAt.IsZero() {
		h.RenewAt = now
	}
}

// Again plans another renewal of a fixed lease: what the last one asked for besides was refused.
func (h *Hold) Again(now time.Time) {
	if h.State == Held && h.Fixed && h.RenewAt.IsZero() {
		h.again(now, h.Term.Span)
	}
}

// again plans the renewal after one that may go unanswered.
func (h *Hold) again(now time.Time, span time.Duration) {
	h.RenewAt = now.Add(min(max(span/10, 10*time.Millisecond), mostRenewed))
}

// Renewed takes in the answer to a renewal that was sent at that time and told the record that
// depth. left is how long the record still has the hold; 0: the record does not have it. Renewed
// reports whether a reassert must follow, to ask what became of the hold or to keep the token key
// alive for as long as is promised, though the holder may die and the record end.
func (h *Hold) Renewed(sent time.Time, left time.Duration, depth int) (reassert bool) {
	if h.State != Held {
		return false
	}
	if left > 0 {
		h.prolong(sent, left, depth)
	}
	return left == 0 || Later(sent.Add(left+lua.TokenKept), h.TokenEnds)
}

// Reasserted is Renewed for a reassert that found the hold, or wrote it again.
func (h *Hold) Reasserted(sent time.Time, left time.Duration, depth int) {
	if h.State == Held {
		h.TokenEnds = sent.Add(lua.TokenTTL + 2*left)
		h.prolong(sent, left, depth)
	}
}

// Shorten takes in that trust ends at that time, if it would end later. It reports whether it would.
func (h *Hold) Shorten(trusted time.Time) bool {
	if h.State != Held || !Later(h.TrustEnds, trusted) {
		return false
	}
	h.TrustEnds = trusted
	return true
}

// prolong takes in that the record has the hold for longer. Deadlines only grow, so an older answer
// that comes later shortens nothing.
func (h *Hold) prolong(sent time.Time, left time.Duration, depth int) {
	t := Term{left, sent.Add(left)}
	if Later(t.Ends, h.Term.Ends) {
		h.Term = t
	}
	if trusted := t.TrustEnds(); Later(trusted, h.TrustEnds) {
		h.TrustEnds = trusted
	}
	h.Beyond = h.Beyond || left > h.Longest // the server's clock was set back
	h.Told = int32(depth)                   //nolint:gosec // memory is full before that overflows
	h.RenewAt, h.SyncAt = time.Time{}, time.Time{}
	if h.Lease != 0 && h.Dropped < max(1, h.Depth) {
		h.RenewAt = sent.Add(renewedAfter(min(left, h.Lease))) // an Extend may have asked for less
	}
	if h.DoubtAt.After(sent) { // the answer may be older than the doubt
		h.settleDoubt()
	} else {
		h.DoubtAt = time.Time{}
	}
	h.showDepth(sent)
}

// For how long after a grant turns on the hold may begin.
const (
	// RunFor bounds what is less exact during a run of a fair lock: what inspection shows, how many
	// count as waiting, and how long a waiter that was passed over waits for its turn.
	RunFor = 20 * time.Millisecond

	// PlainRunFor and PlainTurns, the most turns after the first, bound how long one process keeps
	// a plain lock from the others.
	PlainRunFor = 10 * time.Millisecond
	PlainTurns  = 99
)

// Passes reports whether a call that asks for that lease may have the next turn on the hold without
// a request, if turns may begin for that long after the grant. It may as long as the hold is what
// that call would have been granted: nothing is doubted, and nobody has made the lease longer,
// which a crash would then keep from others.
func (h *Hold) Passes(lease, within time.Duration, now time.Time) bool {
	return h.Live(now) && h.Depth == 0 && h.DoubtAt.IsZero() && Since(h.Began, now) < within &&
		!h.Fixed && lease == h.Asked && h.Lease == lease && h.Term.Span <= lease && h.Longest <= lease &&
		h.RenewAt.Sub(now) > time.Millisecond
}

// Pass takes in that the next turn begins. If it lasts, the record is told of it before long.
func (h *Hold) Pass(now time.Time) {
	h.Dropped, h.Told = 0, 0
	h.showDepth(now)
}

// LeaseGiven takes in that there is one more Lease on the hold.
func (h *Hold) LeaseGiven(now time.Time) {
	h.Depth++
	h.showDepth(now)
}

// LeaseEnded takes in that one of the Leases was unlocked. It reports whether that was the last
// one. If so, Release must follow.
func (h *Hold) LeaseEnded(dropped bool, now time.Time) (last bool) {
	h.Depth--
	if dropped {
		h.Dropped--
	}
	if h.Depth == 0 {
		return true
	}
	h.showDepth(now)
	h.unwanted()
	return false
}

// LeaseDropped takes in that one of the Leases was dropped without Unlock. When all of them were,
// the hold is renewed no more.
func (h *Hold) LeaseDropped() {
	h.Dropped++
	h.unwanted()
}

// unwanted ends the renewals if all Leases that are left were dropped. A further Lease takes the
// hold over.
func (h *Hold) unwanted() {
	if h.Dropped == h.Depth {
		h.RenewAt, h.SyncAt, h.DoubtAt, h.Lease = time.Time{}, time.Time{}, time.Time{}, 0
	}
}

// showDepth has the record show the depth before long. If by then the depth is again what the
// record shows, nothing is sent. A hold that has no Lease yet is shown as one that has.
func (h *Hold) showDepth(now time.Time) {
	if max(1, h.Depth) == h.Told || h.Lease == 0 && h.Dropped > 0 {
		h.SyncAt = time.Time{}
	} else if h.SyncAt.IsZero() {
		h.SyncAt = now.Add(syncWithin)
	}
}

// AskFor takes in what a further Lease asks for, and reports whether the hold has less: for trust
// that lasts longer if its lease is fixed, and else for a watchdog. If the hold has a watchdog, the
// next renewal asks for the longer lease.
func (h *Hold) AskFor(lease time.Duration, fixed bool, now time.Time) (less bool) {
	if fixed {
		return Until(h.TrustEnds, now)+Margin(lease) < lease
	}
	if h.Lease == 0 {
		return true
	}
	h.Lease = max(h.Lease, lease)
	h.Asks(lease, now)
	return false
}

// TakenOver has a hold of a fixed lease renewed from now on. The hold was just extended to the new
// lease.
func (h *Hold) TakenOver(lease time.Duration) {
	if h.State == Held {
		h.Lease = max(h.Lease, lease)
		h.RenewAt = h.Term.Ends.Add(renewedAfter(h.Lease) - h.Term.Span)
		if !h.DoubtAt.IsZero() {
			h.settleDoubt()
		}
	}
}

// Doubted takes in whom an answer names as the lock's holder: nobody, if the server has forgotten.
// at is when the server answered, began when the hold began, both by the server's clock. If the
// named holder is not the hold's owner, a renewal goes out at once, also beside one that is under
// way: that one's answer may be older. A further doubt waits for the answer to that renewal. The
// hold comes back or is lost. Doubted reports whether the hold is due sooner than it was.
func (h *Hold) Doubted(holder, owner string, at, began lua.Micros, now time.Time) bool {
	switch {
	case h.State != Held || holder == owner:
		return false
	case holder != "" && at < began+1000: // the answer is older; began is in whole milliseconds
		return false
	case h.Lease == 0 && !h.Fixed: // all its Leases were dropped
		return false
	}
	asks := !h.DoubtAt.IsZero()
	if h.DoubtAt = now; asks {
		return false // what asks by now may be answered with older news: see prolong
	}
	return h.settleDoubt()
}

// settleDoubt has a renewal sent for the doubt, and reports whether that is sooner than it was to
// be. The renewals of many locks share a request.
func (h *Hold) settleDoubt() bool {
	at := h.DoubtAt.Add(time.Millisecond)
	if !h.RenewAt.IsZero() && !at.Before(h.RenewAt) {
		return false
	}
	h.RenewAt = at
	return true
}

// Lose ends the trust in a hold that expired, vanished or was forced. It reports whether the ticket
// has to leave. If a request of the ticket is open, the ticket leaves: that request could prolong
// what nobody holds, or put the ticket back in line. If the loss is the server's word, the ticket
// leaves in any case: a heartbeat after a loss of data may have put it in line again, or even have
// taken the lock. Otherwise the end of the lease is the end of the hold.
func (h *Hold) Lose(why Why, now time.Time, open bool) (leave bool) {
	h.State = Lost
	if !Passed(h.TrustEnds, now) {
		h.TrustEnds = now
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
	TakeBack                // the lease ended without an answer: leaves go on in the background
)

// Released takes in what came of a release at now: its answer, or err. trusted says that the
// release was sent while the lock was trusted, stop that it is not to be repeated.
func (h *Hold) Released(was lua.Was, err error, trusted bool, now time.Time, stop bool) (Outcome, Why) {
	over := Passed(h.Term.Ends, now)
	switch {
	case err == nil && was == lua.Held:
		return h.over(Clean, 0)
	case err == nil && was == lua.Forced: // an earlier release, which went unanswered, came too late
		return h.over(Missing, Forced)
	case err == nil && (!h.Unsure || was != lua.Neither): // who left is not in line, either
		return h.over(Missing, Vanished)
	case err == nil && Passed(h.TrustEnds, now): // the record may have ended by the server's clock
		return h.over(Missing, Uncertain)
	case err == nil: // an earlier release, which went unanswered, was executed
		return h.over(Clean, 0)
	case stop || !Retryable(err):
		return h.over(Refusal, Failed)
	case over:
		// If the server has lost the hold and learns of it from others, the server keeps the lock
		// for the owner for another lease.
		return h.over(TakeBack, Failed)
	}
	h.Unsure = h.Unsure || trusted && lua.Unanswered(err)
	return Retry, 0
}

func (h *Hold) over(o Outcome, why Why) (Outcome, Why) {
	h.State = Over
	return o, why
}
