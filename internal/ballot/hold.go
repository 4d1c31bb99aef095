package ballot

import (
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// A call that has the lock renews all its votes, and asks for those that it has not.

// Has reports whether the call has the node's vote.
func (b *Ballot) Has(i int, now time.Time) bool { return b.legs[i].counts(now) }

// TrustOver reports whether the time has passed for which the node's vote was trusted.
func (b *Ballot) TrustOver(i int, now time.Time) bool {
	return rules.Passed(b.legs[i].term.TrustEnds(), now)
}

// Missed reports whether the node has not answered a renewal that was sent since then.
func (b *Ballot) Missed(i int, since time.Time) bool { return b.legs[i].renewed.Before(since) }

// Till is until when, by that node's clock, a hold lasts that lasts until that time by the clock of
// the node that gave its vote last; 0 if that is not known.
func (b *Ballot) Till(i int, until, since lua.Micros) lua.Micros {
	if until == 0 || b.legs[i].since == 0 {
		return 0
	}
	return b.legs[i].since + until - since
}

// Rest is what is left now of a hold that lasts for so long from when the last of its votes was
// given.
func (b *Ballot) Rest(length time.Duration, now time.Time) time.Duration {
	last := &b.legs[0]
	for i := range b.legs {
		if g := &b.legs[i]; g.since > last.since {
			last = g
		}
	}
	return length - rules.Since(last.got, now)
}

// Renewed takes in for how long a node has the hold, and that it knows the token. The node does not
// have the hold if left is zero, and has ended it for good if left is negative. A vote that was
// given since the request was sent is newer than an answer that the hold waits.
func (b *Ballot) Renewed(i int, left time.Duration, token int64, sent time.Time) {
	g := &b.legs[i]
	switch {
	case g.ended:
		return
	case left == 0 && g.got.After(sent):
		return
	case left < 0:
		b.LoseVote(i)
		return
	case left == 0:
		g.Phase = rules.Waiting
		return
	}
	g.Phase, g.known = rules.Granted, max(g.known, token)
	if sent.After(g.renewed) {
		g.renewed = sent
	}
	if t := (rules.Term{Span: left, Ends: sent.Add(left)}); rules.Later(t.Ends, g.term.Ends) {
		g.term = t
	}
}

// lapses ends a vote of a call that has the lock when its term has passed. Else the message of a
// later vote would be of no use, though a renewal under way is answered that the hold waits.
func (b *Ballot) lapses(g *leg, now time.Time) {
	if b.Phase == rules.Granted && g.Phase == rules.Granted && !g.counts(now) {
		g.Phase = rules.Waiting
	}
}

// Vote is the token of the node's vote, or 0 if the call has not the vote.
func (b *Ballot) Vote(i int) int64 {
	if g := &b.legs[i]; g.Phase == rules.Granted {
		return g.token
	}
	return 0
}

// Knows is Renewed for a call that waits, and told the node the token that its Lease would have
// while it had that vote. It may have given the vote back since: then the answer is old.
func (b *Ballot) Knows(i int, vote int64, left time.Duration, token int64, sent time.Time) {
	if b.Vote(i) == vote {
		b.Renewed(i, left, token, sent)
	}
}

// LoseVote takes in that an administrator ended what the call had at that node. An answer that says
// otherwise is from before that, on another connection.
func (b *Ballot) LoseVote(i int) { b.legs[i].Phase, b.legs[i].ended = rules.Waiting, true }

// HasLost reports whether the node has ended the hold. It is not asked for the vote again: it might
// lose its data, and with it what it knows of that, after it gave the vote to somebody else.
func (b *Ballot) HasLost(i int) bool { return b.legs[i].ended }

// Standing is until when a majority of votes is trusted. It is not ok if there is no majority: then
// the hold is lost, though nodes of which nothing is known now could make one again. In between
// somebody else may have had theirs.
func (b *Ballot) Standing(now time.Time) (until time.Time, ok bool) {
	var ends []time.Time
	for i := range b.legs {
		if g := &b.legs[i]; g.counts(now) {
			ends = append(ends, g.term.TrustEnds())
		}
	}
	if len(ends) < b.need {
		return until, false
	}
	return nthLatest(ends, b.need, now), true
}

// Prolonged reports whether a majority of votes was prolonged by requests sent since then that
// asked for that lease; 0: that left it as it was.
func (b *Ballot) Prolonged(since time.Time, lease time.Duration) bool {
	count := 0
	for i := range b.legs {
		g := &b.legs[i]
		if g.Phase == rules.Granted && !g.renewed.Before(since) && (lease == 0 || rules.Until(g.term.Ends, since)+tick >= lease) {
			count++
		}
	}
	return count >= b.need
}

// Forgotten is what a node says of a hold of which it knows nothing, if it has lost data since. If
// the vote was the hold's, nobody else has had it since.
const Forgotten lua.Was = "forgotten"

// Release counts what the nodes say of a hold that is given back.
type Release struct {
	nodes, need int
	held, none  int
	forced      bool // a node says so
	unsaid      int  // nodes that have not answered, whose votes were trusted until a majority had
	refusals    int  // nodes whose last word is an error
	done        int
}

// Release begins the release of the hold.
func (b *Ballot) Release(now time.Time) Release {
	b.Phase = rules.Leaving
	r := Release{nodes: len(b.legs), need: b.need}
	for i := range b.legs {
		if b.legs[i].counts(now) {
			r.unsaid++
		}
	}
	return r
}

// Left takes in what a node said. trusted says whether its vote was as the release began, and its
// trust has not Lapsed; again, whether an earlier request was not answered. If that one took the
// vote back, the node knows nothing of it now: a force would be known. If the node has forgotten
// it, it let nobody in since.
func (r *Release) Left(was lua.Was, trusted, again bool) {
	if trusted && (was == Forgotten || again && was == lua.Neither) {
		was = lua.Held
	}
	if trusted {
		r.unsaid--
	}
	if was == lua.Held {
		r.held++
	} else {
		r.none++
		r.forced = r.forced || was == lua.Forced
	}
	r.done++
}

// Lapsed takes in that the trust in the vote of a node has ended before the node answered.
func (r *Release) Lapsed() { r.unsaid-- }

// Failed takes in that a node's last word is an error. It may have the vote.
func (r *Release) Failed() {
	r.refusals++
	r.done++
}

// Known reports whether it is known what the release did.
func (r *Release) Known() bool { return r.held >= r.need || r.none > r.nodes-r.need }

// Heard is how many nodes have no vote of the hold any more.
func (r *Release) Heard() int { return r.held + r.none }

// Free reports whether those are a majority, so that somebody else can have the lock.
func (r *Release) Free() bool { return r.Heard() >= r.need }

// Refused reports whether so many nodes have failed for good that it stays unknown what the release
// did.
func (r *Release) Refused() bool { return r.refusals > r.nodes-r.need || r.refusals > 0 && r.Over() }

// Over reports whether all nodes have answered.
func (r *Release) Over() bool { return r.done == r.nodes }

// Was is what the hold was, once Free: held, forced, or lost for another reason, which has no word.
func (r *Release) Was() lua.Was {
	switch {
	case r.Clean():
		return lua.Held
	case r.forced:
		return lua.Forced
	}
	return ""
}

// Clean reports whether a majority had the hold until it was given back. A node that has not
// answered since let nobody in, if its vote was trusted then.
func (r *Release) Clean() bool { return r.held+r.unsaid >= r.need }
