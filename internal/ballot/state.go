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
	legs, due := append(room.legs[:0], b.legs...), append(room.due[:0], b.due...)
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
// behave alike.
func (b *Ballot) AppendLeg(to []byte, i int) []byte {
	g := &b.legs[i]
	to = numbers(to, int64(g.Phase), g.Shown, g.Forced, millis(g.Last.Sent), int64(g.Last.At), int64(g.Last.Session), //nolint:gosec // a count
		g.given, g.wanted, int64(g.at), g.known, int64(g.open),
		bits(g.lapsed, g.ended, g.told, g.pending, g.answered, g.asked, g.asking, g.lost, g.refused, g.full, g.err != nil, slices.Contains(b.due, i)))
	if g.refused {
		to = append(append(to, g.by...), 0)
	}
	if g.Phase == rules.Granted || b.Phase == rules.Granted {
		to = numbers(to, g.token, int64(g.since), millis(g.got), millis(g.term.Ends), int64(g.term.Span))
	}
	return to
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
