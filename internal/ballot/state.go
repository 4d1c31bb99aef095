package ballot

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/rules"
)

// The model checker copies Ballots, and tells states apart by what a Ballot knows.

// Copy is a Ballot of its own in the same state. It takes the room of another Ballot, or of none if
// that is nil.
func (b *Ballot) Copy(room *Ballot) *Ballot {
	if room == nil {
		room = new(Ballot)
	}
	legs, due := room.legs[:0], room.due[:0]
	legs, due = append(legs, b.legs...), append(due, b.due...)
	*room = *b
	room.legs, room.due = legs, due
	return room
}

// AppendCall appends what the Ballot knows that is of no node. What only tells users where they
// stand is left out.
func (b *Ballot) AppendCall(to []byte) []byte {
	return numbers(to, int64(b.Phase), int64(b.Bound), int64(b.Place))
}

// AppendLeg appends what the Ballot knows of one node. Two Ballots for which all of that is equal
// behave alike, but for Missed and Prolonged.
func (b *Ballot) AppendLeg(to []byte, i int) []byte {
	g := &b.legs[i]
	to = numbers(to, int64(g.Phase), g.Shown, g.Forced, millis(g.Last.Sent), int64(g.Last.At), int64(g.Last.Session), //nolint:gosec // a count
		g.given, g.past, int64(g.pastSince), g.wanted, int64(g.at), g.known, int64(g.requests.InFlight), int64(g.unawaited),
		bits(g.lapsed, g.ended, g.told, g.pending, g.answered, g.asked, g.asking, g.requests.Lost, g.refused, g.full, g.err != nil, slices.Contains(b.due, i)))
	if g.refused {
		to = append(append(to, g.by...), 0)
	}
	if g.Phase == rules.Granted || b.Phase == rules.Granted {
		to = numbers(to, g.token, int64(g.since), millis(g.got), millis(g.term.Ends), int64(g.term.Span))
	}
	return to
}

// Forget drops what the Ballot knows of one node and cannot matter any more. No answer or message
// of that node will come with a token less than soonest. If there is something to drop, Forget does
// so in a copy, for which room gives the room.
func (b *Ballot) Forget(i int, soonest int64, room func() *Ballot) *Ballot {
	g := b.legs[i]
	for _, token := range []*int64{&g.Shown, &g.Forced, &g.given, &g.wanted} {
		if *token < soonest {
			*token = 0
		}
	}
	if g.past < soonest {
		g.past, g.pastSince = 0, 0
	}
	if b.Phase == rules.Granted { // nobody judges it again, and it stands in no line
		g.wanted, g.at, g.known, g.position, g.by, g.err, g.why = 0, 0, 0, 0, "", nil, nil
		g.lapsed, g.told, g.pending, g.answered, g.asking, g.refused, g.full = false, false, false, false, false, false, false
	}
	if g == b.legs[i] {
		return b
	}
	b = b.Copy(room())
	b.legs[i] = g
	return b
}

// Least is the least token that a Lease of the call may have. A vote to come has no token less than
// that of its node in soonest.
func (b *Ballot) Least(soonest func(i int) int64) int64 {
	least := make([]int64, 0, 8)
	for i := range b.legs {
		if g := &b.legs[i]; g.Phase == rules.Granted {
			least = append(least, min(g.token, soonest(i)))
		} else {
			least = append(least, soonest(i))
		}
	}
	slices.Sort(least)
	return least[b.need-1]
}

func numbers(to []byte, all ...int64) []byte {
	for _, n := range all {
		to = binary.LittleEndian.AppendUint64(to, uint64(n)) //nolint:gosec // its bits are what counts
	}
	return to
}

func bits(all ...bool) (n int64) {
	for i, bit := range all {
		if bit {
			n |= 1 << i
		}
	}
	return n
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
