package ballot

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// Verdict is what becomes of a call.
type Verdict struct {
	Do    Do
	Token int64      // of Hold: of the Lease. Of Tell: what those nodes have to know first
	Term  rules.Term // of Hold
	Tell  []int      // of Wait
	Split bool       // of Wait: from now on the try stands in line, for a moment
	Err   error      // of Fail
	Away  bool       // of Fail and Fill: nodes that are away could make it another
}

// Do is what kind of verdict it is.
type Do int8

// The verdicts.
const (
	Wait   Do = iota // the call goes on; nodes in Tell have to know a token before it is decided
	Hold             // it has the lock
	Refuse           // it is a try, and one other call has a majority of the votes
	Fill             // its bound of waiters leaves no majority
	Fail             // definite errors leave no majority
)

// Judge decides what becomes of a call that waits. away says which nodes are not to be waited for.
func (b *Ballot) Judge(now time.Time, away func(i int) bool) Verdict {
	token, term, tell, ok := b.decide(now)
	if ok {
		b.Phase = rules.Granted
		b.due = nil
		for i := range b.legs {
			if g := &b.legs[i]; g.Phase != rules.Granted {
				g.since = 0 // of a vote that is gone
			}
		}
		return Verdict{Do: Hold, Token: token, Term: term}
	}
	full, failed, open, gone, most := 0, 0, 0, 0, 0
	var err, passing error
	for i := range b.legs {
		g := &b.legs[i]
		if g.why != nil && !away(i) { // the node is there again, for who asks for less
			passing = errors.Join(passing, g.why)
		}
		switch {
		case g.err != nil:
			failed++
			err = errors.Join(err, g.err)
		case g.refused:
			most = max(most, b.refusals(g.by))
		case away(i), g.requests.InFlight > 0 && g.requests.InFlight == g.unawaited:
			if g.Phase != rules.Granted {
				gone++
			}
		case g.requests.InFlight > 0:
			open++
		}
		if g.full {
			full++
		}
	}
	spare := len(b.legs) - b.need
	switch {
	case failed > spare:
		return Verdict{Do: Fail, Err: err}
	case full > spare, full > 0 && open == 0 && full+failed+gone > spare:
		// It would stand in the way of others where it stands in line.
		return Verdict{Do: Fill, Away: full+failed <= spare}
	case b.Bound >= 0:
	case most >= b.need:
		return Verdict{Do: Refuse}
	case open == 0:
		if reached := b.reached(); reached < b.need {
			return Verdict{Do: Fail, Away: true, Err: errors.Join(fmt.Errorf(
				"%d of %d nodes answered, and a majority is %d: %w", reached, len(b.legs), b.need, rules.ErrUnreachable), err, passing)}
		}
		b.standInLine()
		return Verdict{Token: token, Tell: tell, Split: true}
	}
	return Verdict{Token: token, Tell: tell}
}

// refusals counts the nodes that turned the call away as somebody had their votes.
func (b *Ballot) refusals(by string) (count int) {
	for i := range b.legs {
		if g := &b.legs[i]; g.refused && g.err == nil && g.by == by {
			count++
		}
	}
	return count
}

// reached counts the nodes that have answered.
func (b *Ballot) reached() (count int) {
	for i := range b.legs {
		if b.legs[i].answered || b.legs[i].refused {
			count++
		}
	}
	return count
}

// standInLine makes a try that has votes and no majority, while nobody else has one either, a call
// that waits: the votes go to whoever is oldest.
func (b *Ballot) standInLine() {
	b.Bound = 0
	for i := range b.legs {
		b.legs[i].refused = false
		b.Ask(i)
	}
}

// decide reports whether the call has a majority at this instant, and if so, the token of its
// Lease and for how long the majority is trusted. Nodes in tell have to know the token first, or
// they could give a smaller one: their clocks are further apart than a claim.
func (b *Ballot) decide(now time.Time) (token int64, t rules.Term, tell []int, ok bool) {
	for i := range b.legs {
		if g := &b.legs[i]; g.decides(now) {
			token = max(token, g.token)
		}
	}
	var room [8]time.Time
	ends := room[:0]
	for i := range b.legs {
		g := &b.legs[i]
		if !g.decides(now) {
			continue
		}
		if g.known < token && token > int64(g.since)+(g.Claim()-tick).Microseconds() {
			if g.err == nil { // else it has refused to be told, and would at once again
				tell = append(tell, i)
			}
			continue
		}
		end := g.term.Ends
		if claimed := now.Add(g.Claim()); end.After(claimed) { // its node's clock was set back
			end = claimed
		}
		ends = append(ends, end)
	}
	switch {
	case len(ends) >= b.need:
		return token, rules.Term{Span: b.legs[0].Claim(), Ends: nthLatest(ends, b.need, now)}, nil, true
	case len(ends)+len(tell) >= b.need && b.Place > 0: // else a vote that is gone by then has no place to wait in
		return token, t, tell, false
	}
	return token, t, nil, false
}

// nthLatest is the time until which n of the times have not come, by either clock.
func nthLatest(times []time.Time, n int, now time.Time) time.Time {
	var room [8]time.Duration
	left := room[:0]
	for _, t := range times {
		left = append(left, rules.Until(t, now))
	}
	slices.Sort(left)
	return now.Add(left[len(left)-n])
}

// counts reports whether the call has the node's vote.
func (g *leg) counts(now time.Time) bool {
	return g.Phase == rules.Granted && !rules.Passed(g.term.TrustEnds(), now)
}

// decides reports whether the node's vote may decide the call.
func (g *leg) decides(now time.Time) bool {
	return g.Phase == rules.Granted && !rules.Passed(g.decidesUntil(g.term), now)
}

// decidesUntil is until when a vote of that term may decide the call. A vote may have come long
// before the others: a Lease that is trusted for a moment is lost before its first renewal is
// answered. So a tenth of the claim has to be left, less the margin that the Lease will have: that
// of a whole claim, though an answer may have told that less is left.
func (g *leg) decidesUntil(t rules.Term) time.Time {
	return rules.Term{Span: g.Claim(), Ends: t.Ends}.TrustEnds().Add(-g.Claim() / 10)
}

// Since is when the latest of the nodes gave its vote.
func (b *Ballot) Since() (since lua.Micros) {
	for i := range b.legs {
		since = max(since, b.legs[i].since)
	}
	return since
}
