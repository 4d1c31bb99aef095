package ballot

import (
	"slices"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// tick is more than what is lost where a time is cut to milliseconds.
const tick = 2 * time.Millisecond

// Ballot is a call's standing at all nodes.
type Ballot struct {
	Phase  rules.Phase
	Bound  int       // as a request says it: how many may wait, 0 for any number, or -1 for a try
	Place  lua.Place // the same at all nodes; 0: no majority has proposed one yet
	Last   Answer    // the latest that named another holder, until its lease has ended
	LastAt time.Time

	need int // a majority
	legs []leg
	due  []int // nodes that the call has to ask
}

// leg is the call at one node.
type leg struct {
	rules.Waiter            // whether it has the node's vote: Granted
	term         rules.Term // of the vote
	token        int64      // of the vote
	since        lua.Micros // when the node gave it; of a hold: 0 unless the hold began with it
	got          time.Time  // when that was heard of
	given        int64      // token of the latest vote that was given back, or is about to be
	past         int64      // the largest token of those
	pastSince    lua.Micros // and when the last of them was given
	lapsed       bool       // a vote ended before the call was decided
	ended        bool       // an administrator ended what the call had there: answers from before are void
	wanted       int64      // token of the latest vote that somebody older asked for
	at           lua.Place  // in the node's line; 0: not known
	told         bool       // a request has told the final place
	pending      bool       // the node's holder was undecided
	answered     bool
	known        int64     // the largest token of a Lease that the node was told
	renewed      time.Time // when the latest renewal was sent that prolonged the vote
	position     int       // the last that was told

	requests  rules.Requests
	asked     bool   // a request went out
	asking    bool   // an enter is under way
	unawaited int32  // of the requests in flight, those for which the call does not wait
	refused   bool   // the node turned a try away, or its line is full
	full      bool   // that is why
	by        string // who had the vote then; empty: somebody in line comes first
	err       error  // a definite one
	why       error  // of a request that failed, if another may succeed
}

// New is the ballot of a call that asks n nodes for a claim of that length.
func New(n int, claim time.Duration, bound int, began time.Time) *Ballot {
	b := &Ballot{need: n/2 + 1, legs: make([]leg, n), Bound: bound}
	for i := range b.legs {
		b.legs[i].Waiter = rules.Waiter{Lease: claim, Began: began}
	}
	return b
}

// Ask notes that the call has to ask that node.
func (b *Ballot) Ask(i int) {
	if !slices.Contains(b.due, i) {
		b.due = append(b.due, i)
	}
}

// Due takes the nodes that the call has to ask now. Those that are away, and those with requests
// under way, are asked later: of two enters, the one with the older place could come second. So are
// those where a vote has lapsed, while no majority is there that may vote for the call: somebody
// else may have one.
func (b *Ballot) Due(away func(i int) bool) (now []int) {
	if len(b.due) == 0 {
		return nil
	}
	var later []int
	there := 0
	for i := range b.legs {
		if !away(i) && b.legs[i].err == nil {
			there++
		}
	}
	for _, i := range b.due {
		if b.legs[i].asking || b.legs[i].requests.InFlight > 1 || away(i) || b.legs[i].lapsed && there < b.need {
			later = append(later, i)
		} else {
			now = append(now, i)
		}
	}
	b.due = later
	return now
}

// TakeDue reports whether the call has to ask that node, and takes that as done.
func (b *Ballot) TakeDue(i int) bool {
	k := slices.Index(b.due, i)
	if k < 0 {
		return false
	}
	b.due = slices.Delete(b.due, k, k+1)
	return true
}

// Enter is what a request says that goes out to that node now: the place, and the token of a vote
// that it gives back.
func (b *Ballot) Enter(i int) (place lua.Place, back int64) {
	b.Sent(i)
	g := &b.legs[i]
	g.told, g.lapsed, g.asking = b.Place > 0, false, true
	if g.Phase == rules.Granted {
		return max(b.Place, g.at), 0
	}
	if b.Place > 0 {
		return b.Place, g.given
	}
	return g.at, g.given
}

// Sent takes in that a request goes out to that node.
func (b *Ballot) Sent(i int) {
	b.legs[i].asked = true
	b.legs[i].requests.Sent()
}

// Entered is Ended for an enter.
func (b *Ballot) Entered(i int, lost bool) {
	b.legs[i].asking = false
	b.Ended(i, lost)
}

// Ended takes in that a request has ended. lost says that the node may execute it yet.
func (b *Ballot) Ended(i int, lost bool) {
	g := &b.legs[i]
	g.requests.Answered(lost)
	g.unawaited = min(g.unawaited, g.requests.InFlight)
}

// Hurry has the call wait no longer for the requests that are under way.
func (b *Ballot) Hurry() {
	for i := range b.legs {
		b.legs[i].unawaited = b.legs[i].requests.InFlight
	}
}

// Asked reports whether a request went out to that node.
func (b *Ballot) Asked(i int) bool { return b.legs[i].asked }

// Underway reports whether a request to that node is under way.
func (b *Ballot) Underway(i int) bool { return b.legs[i].requests.InFlight > 0 }

// Open reports whether that node may still execute a request.
func (b *Ballot) Open(i int) bool { return b.legs[i].requests.Open() }

// Evicted takes in that an administrator took the call out of the node's line, or took the node's
// vote from it.
func (b *Ballot) Evicted(i int, err error) {
	b.LoseVote(i)
	b.Failed(i, err, true)
}

// Failed takes in that a request failed. An error that another request would not mend is definite.
func (b *Ballot) Failed(i int, err error, definite bool) {
	g := &b.legs[i]
	if g.err, g.why = nil, nil; definite {
		g.err = err
	} else {
		g.why = err
		b.Ask(i)
	}
}

// Answered takes in what a node said at a time that the pair tells.
func (b *Ballot) Answered(i int, a *Answer, s rules.ClockPair, now time.Time) {
	g := &b.legs[i]
	if g.ended {
		return
	}
	if a.Status != Granted && b.tells(a.Holder, now) {
		b.Last, b.LastAt = *a, now
	}
	if a.Status == Held || a.Status == Full {
		if g.refused, g.full, g.by = true, a.Status == Full, a.Holder; g.full {
			b.findPlace()
		}
		return
	}
	g.answered = true
	switch {
	case a.Status == Granted && g.over(a.Token, a.Since):
		return // older than the request that gave the vote back
	case a.Status == Waits && a.Token < g.Shown && s.At > g.Last.At:
		g.Shown = 0 // the node has lost its data: it may give smaller tokens than before
	}
	g.refused, g.full, g.err, g.why = false, false, nil, nil
	if g.at = a.Place; a.Status == Waits {
		g.pending, g.position = a.Pending, a.Position
	}
	state := a.ticketState()
	step := g.Told(&state, a.Token, s, now, false)
	if step.Do == rules.Take { // a renewal may have made it a lease by then, which takes the margin of one
		step.Term.Span = max(step.Term.Span, a.Left)
	}
	step = b.enough(i, step, now)
	b.carryOut(i, step, a.Token, a.Since, now)
	if a.Status == Granted && step.Do == rules.Ask { // too short to be of use, also if it is asked for again
		g.forgoes(a.Token, a.Since)
		g.lapsed = true
	}
	if a.Status == Granted && a.Older {
		g.wanted = max(g.wanted, a.Token)
	}
	b.yield(i)
	b.findPlace()
}

// Sees takes in who has the node's vote, and for how long, as the answer to a heartbeat says it.
func (b *Ballot) Sees(holder string, left time.Duration, now time.Time) {
	if b.tells(holder, now) {
		b.Last.Holder, b.Last.Left, b.LastAt = holder, left, now
	}
}

// tells reports whether a node that names that holder tells more than is known: one that has lost
// its data names nobody, and hides no holder whom another has named.
func (b *Ballot) tells(holder string, now time.Time) bool {
	return holder != "" || now.Sub(b.LastAt) >= b.Last.Left
}

// Stood takes in that the call stood in the node's line at a time that the pair tells, without the
// vote. A message is believed the longer, the later that was.
func (b *Ballot) Stood(i int, s rules.ClockPair) {
	if g := &b.legs[i]; s.At > g.Last.At {
		g.Last = s
	}
}

// Missing takes in that the call is not in the node's line any more.
func (b *Ballot) Missing(i int) {
	b.legs[i].told = false
	b.Ask(i)
}

// At is the call's place in that node's line.
func (b *Ballot) At(i int) lua.Place { return b.legs[i].at }

// Heard takes in that a message told of the node's vote.
func (b *Ballot) Heard(i int, m *lua.Message, received time.Time, session uint64) {
	g := &b.legs[i]
	if g.ended || g.over(m.Token, m.At) {
		return
	}
	b.lapses(g, received)
	step := b.enough(i, g.Waiter.Heard(m, received, session, false), received)
	b.carryOut(i, step, m.Token, m.At, received)
	b.yield(i)
	b.findPlace()
}

// Want takes in that somebody older asked for the vote of that token. If nothing has told of that
// vote yet, an answer does, and the vote goes back.
func (b *Ballot) Want(i int, token int64) {
	g := &b.legs[i]
	g.wanted = max(g.wanted, token)
	if b.Phase == rules.Waiting && g.Phase != rules.Granted && token > g.past {
		b.Ask(i)
	}
	b.yield(i)
}

// carryOut does what a step of the rules says about a node: it has the vote of that token, or it is
// asked again.
func (b *Ballot) carryOut(i int, s rules.Step, token int64, since lua.Micros, now time.Time) {
	if g := &b.legs[i]; s.Do == rules.Take {
		g.token, g.got, g.term = token, now, s.Term
		if b.Phase == rules.Waiting {
			g.since = since
		}
	} else if s.Do == rules.Ask {
		b.Ask(i)
	}
}

// enough has a node asked again whose vote could not decide a call that waits: an answer tells more
// exactly than a message how long the vote lasts.
func (b *Ballot) enough(i int, s rules.Step, now time.Time) rules.Step {
	if g := &b.legs[i]; s.Do == rules.Take && b.Phase == rules.Waiting && rules.Passed(g.decidesUntil(s.Term), now) {
		g.Phase = rules.Waiting
		return rules.Step{Do: rules.Ask}
	}
	return s
}

// yield gives a vote back if somebody older asked for it. A call that has the lock gives none back.
func (b *Ballot) yield(i int) {
	if g := &b.legs[i]; b.Phase == rules.Waiting && g.Phase == rules.Granted && g.wanted >= g.token {
		b.back(i)
	}
}

// back gives a vote back: the call goes on waiting for it.
func (b *Ballot) back(i int) {
	g := &b.legs[i]
	g.gives()
	g.Shown = max(g.Shown, g.token)
	b.Ask(i)
}

// gives ends the call's trust in a vote. What was asked and told of the vote is no matter of the
// next one: by then the node may have lost its data.
func (g *leg) gives() {
	g.forgoes(g.token, g.since)
	g.Phase, g.wanted, g.known = rules.Waiting, 0, 0
}

// forgoes notes that a vote is to be given back.
func (g *leg) forgoes(token int64, since lua.Micros) {
	g.given, g.past, g.pastSince = token, max(g.past, token), max(g.pastSince, since)
}

// over reports whether a vote is one of those that were given back. Its token alone does not tell
// that: a node that has lost its data may give smaller ones, if its clock is behind the others'.
// Nor does its time, for a clock may be set back.
func (g *leg) over(token int64, since lua.Micros) bool {
	return token <= g.past && since <= g.pastSince
}

// Expire gives back the votes that can no longer decide a call that waits.
func (b *Ballot) Expire(now time.Time) {
	for i := range b.legs {
		if g := &b.legs[i]; g.Phase == rules.Granted && rules.Passed(g.decidesUntil(g.term), now) {
			b.back(i)
			g.lapsed = true
		}
	}
}

// Stands reports whether the call is to stay in that node's line.
func (b *Ballot) Stands(i int) bool { return b.legs[i].asked && !b.legs[i].lapsed }

// Ends is when the first vote that a waiting call has can no longer decide it; the zero time if it
// has none.
func (b *Ballot) Ends() (end time.Time) {
	for i := range b.legs {
		g := &b.legs[i]
		if t := g.decidesUntil(g.term); g.Phase == rules.Granted && (end.IsZero() || t.Before(end)) {
			end = t
		}
	}
	return end
}

// findPlace finds the place of the call once a majority has answered, and tells it where that
// matters: where the call has the vote, where it stands elsewhere, where the vote may be asked for,
// and where the line was full. A decided call tells none.
func (b *Ballot) findPlace() {
	if b.Phase != rules.Waiting {
		return
	}
	if b.Place == 0 {
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
			b.Place = max(b.Place, b.legs[i].at)
		}
	}
	for i := range b.legs {
		g := &b.legs[i]
		if g.full { // a majority has let the call into line
			g.full, g.refused = false, false
			b.Ask(i)
		}
		if g.answered && !g.told && (g.Phase == rules.Granted || g.at != b.Place || g.pending) {
			b.Ask(i)
		}
	}
}

// Position is where the call stands: the largest of the positions that were told.
func (b *Ballot) Position() (position int) {
	for i := range b.legs {
		position = max(position, b.legs[i].position)
	}
	return position
}
