package quorum

import (
	"slices"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// ballot is a call's standing at all nodes, by the rules: what it has heard, whether it has the
// lock, and which nodes it has to ask next. It does no I/O and takes no mutex.
//
// Each node has one vote for a lock. A call that has a majority of votes at one instant is decided:
// it has the lock. A call stands at the same place in the line of every node: the latest of those
// that a majority proposed (Skeen). Each node gives its vote to the first in its line. A call that
// has votes and no majority gives them to whoever is older and asks for them (Maekawa). So nobody
// waits in a circle, and no timer ends a split.
type ballot struct {
	need  int // a majority
	place lua.Place
	legs  []leg
	due   []int // nodes that the call has to ask
}

// leg is the call at one node.
type leg struct {
	rules.Waiter            // whether it has the node's vote: Granted
	term         rules.Term // of the vote
	token        int64      // of the vote
	since        lua.Micros // when the node gave it
	given        int64      // token of the latest vote that was given back, or is about to be
	wanted       int64      // token of the latest vote that somebody older asked for
	at           lua.Place  // in the node's line; 0: not known
	told         bool       // a request has told the final place
	pending      bool       // the node's holder was undecided
	answered     bool
	known        int64 // the largest token of a Lease that the node was told
	waiting      int   // for OnQueued: the last position that was told
}

// newBallot is the ballot of a call that asks n nodes for a claim of that length.
func newBallot(n int, claim time.Duration, began time.Time) *ballot {
	b := &ballot{need: n/2 + 1, legs: make([]leg, n)}
	for i := range b.legs {
		b.legs[i].Waiter = rules.Waiter{Lease: claim, Began: began}
	}
	return b
}

// ask notes that the call has to ask that node.
func (b *ballot) ask(i int) {
	if !slices.Contains(b.due, i) {
		b.due = append(b.due, i)
	}
}

// asks is what a request to that node says now: the place, and the token of a vote to give back.
func (b *ballot) asks(i int) (place lua.Place, back int64) {
	g := &b.legs[i]
	g.told = b.place > 0
	if g.Phase == rules.Granted {
		return max(b.place, g.at), 0
	}
	if b.place > 0 {
		return b.place, g.given
	}
	return g.at, g.given
}

// answer takes in what a node said at a time that the pair tells.
func (b *ballot) answer(i int, a *answer, s rules.ClockPair, now time.Time) {
	g := &b.legs[i]
	g.answered = true
	if a.status == granted && a.token <= g.given {
		return // older than the request that gave the vote back
	}
	if g.at = a.place; a.status == waits {
		g.pending, g.waiting = a.pending, a.position
	}
	state := a.ticketState()
	b.carryOut(i, g.Told(&state, a.token, s, now, false), a.token, a.since)
	if a.status == granted && a.older {
		g.wanted = max(g.wanted, a.token)
	}
	b.yield(i)
	b.settle()
}

// heard takes in that a message told of the node's vote.
func (b *ballot) heard(i int, m *lua.Message, received time.Time, session uint64) {
	g := &b.legs[i]
	if m.Token <= g.given {
		return
	}
	b.carryOut(i, g.Heard(m, received, session, false), m.Token, m.At)
	b.yield(i)
	b.settle()
}

// want takes in that somebody older asked for the vote of that token.
func (b *ballot) want(i int, token int64) {
	b.legs[i].wanted = max(b.legs[i].wanted, token)
	b.yield(i)
}

// carryOut does what a step of the rules says about a node: it has the vote of that token, or it is
// asked again.
func (b *ballot) carryOut(i int, s rules.Step, token int64, since lua.Micros) {
	if g := &b.legs[i]; s.Do == rules.Take {
		g.token, g.since, g.term = token, since, s.Term
	} else if s.Do == rules.Ask {
		b.ask(i)
	}
}

// yield gives a vote back if somebody older asked for it.
func (b *ballot) yield(i int) {
	if g := &b.legs[i]; g.Phase == rules.Granted && g.wanted >= g.token {
		b.back(i)
	}
}

// back gives a vote back: the call goes on waiting for it.
func (b *ballot) back(i int) {
	g := &b.legs[i]
	g.given, g.Phase = g.token, rules.Waiting
	g.Shown = max(g.Shown, g.token)
	b.ask(i)
}

// expire gives back the votes that can no longer be trusted.
func (b *ballot) expire(now time.Time) {
	for i := range b.legs {
		if g := &b.legs[i]; g.Phase == rules.Granted && rules.Passed(g.term.TrustEnds(), now) {
			b.back(i)
		}
	}
}

// settle finds the place of the call once a majority has answered, and tells it where that matters:
// where the call has the vote, where it stands elsewhere, and where the vote may be asked for.
func (b *ballot) settle() {
	if b.place == 0 {
		answered := 0
		for i := range b.legs {
			if b.legs[i].answered {
				answered++
			}
		}
		if answered < b.need {
			return
		}
		for i := range b.legs {
			b.place = max(b.place, b.legs[i].at)
		}
	}
	for i := range b.legs {
		g := &b.legs[i]
		if g.answered && !g.told && (g.Phase == rules.Granted || g.at != b.place || g.pending) {
			b.ask(i)
		}
	}
}

// decide reports whether the call has a majority at this instant, and if so, the token of its
// Lease and for how long the majority is trusted. Nodes in tell have to know the token first, or
// they could give a smaller one: their clocks are further apart than a claim.
func (b *ballot) decide(now time.Time) (token int64, t rules.Term, tell []int, ok bool) {
	for i := range b.legs {
		if g := &b.legs[i]; g.counts(now) {
			token = max(token, g.token)
		}
	}
	var ends []time.Time
	for i := range b.legs {
		g := &b.legs[i]
		if !g.counts(now) {
			continue
		}
		if g.known < token && token > int64(g.since)+(g.Claim()-tick).Microseconds() {
			tell = append(tell, i)
			continue
		}
		ends = append(ends, g.term.Ends)
	}
	if len(ends)+len(tell) < b.need || len(ends) < b.need {
		if len(ends)+len(tell) < b.need {
			tell = nil
		}
		return token, t, tell, false
	}
	slices.SortFunc(ends, func(x, y time.Time) int { return y.Compare(x) })
	return token, rules.Term{Span: b.legs[0].Claim(), Ends: ends[b.need-1]}, nil, true
}

// tick is more than what is lost where a time is cut to milliseconds.
const tick = 2 * time.Millisecond

// counts reports whether the call has the node's vote.
func (g *leg) counts(now time.Time) bool {
	return g.Phase == rules.Granted && !rules.Passed(g.term.TrustEnds(), now)
}

// position is where the call stands: the largest of the positions that a majority told.
func (b *ballot) position() (position int) {
	for i := range b.legs {
		position = max(position, b.legs[i].waiting)
	}
	return position
}
