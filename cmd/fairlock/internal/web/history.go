package web

import (
	"slices"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/cmd/fairlock/internal/survey"
	"github.com/fairlock/locks/fairlock"
)

// The bounds of what is remembered: of each lock, the last minutes; of that many locks, with at
// most one point in about a second.
const (
	remembered = 10 * time.Minute
	mostTrails = 10_000
	apart      = 900 * time.Millisecond
)

// point is what one look has seen. There are many, so they are small.
type point struct {
	at, until     int64 // Unix milliseconds; until then the look counts
	waiting, rate float32
}

// newPoint returns the point for a look after which there is none for the time rest.
func newPoint(at time.Time, waiting int, rate float64, rest time.Duration) point {
	ms := at.UnixMilli()
	return point{ms, ms + (2*rest + 3*time.Second).Milliseconds(), float32(waiting), float32(rate)}
}

// trails are the histories of locks, and under the key everything that of all together. Points are
// only appended: who has a slice may go on reading it.
type trails map[key][]point

func (t trails) add(k key, p point) {
	trail := t[k]
	if last := len(trail) - 1; last >= 0 && p.at-trail[last].at < apart.Milliseconds() || last < 0 && len(t) >= mostTrails {
		return
	}
	for len(trail) > 0 && p.at-trail[0].at > remembered.Milliseconds() {
		trail = trail[1:]
	}
	t[k] = append(trail, p)
}

// all adds what a look at all locks has seen. A lock that it has not seen is idle.
func (t trails) all(p *survey.Picture, rest time.Duration) {
	totals := p.Totals()
	now := newPoint(p.At, totals.Waiting, totals.Rate, rest)
	t.add(everything, now)
	for _, l := range p.Locks {
		t.add(key{l.Kind, l.Name}, newPoint(p.At, l.Waiting, l.Rate, rest))
	}
	for k, trail := range t {
		if now.at-trail[len(trail)-1].at < apart.Milliseconds() {
			continue // it was seen
		}
		if t.add(k, newPoint(p.At, 0, 0, rest)); !slices.ContainsFunc(t[k], point.busy) {
			delete(t, k)
		}
	}
}

// busy reports whether there was anything to see.
func (p point) busy() bool { return p.waiting > 0 || p.rate > 0 }

// happening is something that was overheard.
type happening struct {
	At       time.Time
	What     string // reads on: "order:42 was handed to"
	Who      string // as people read it; "": nobody is named
	Token    int64
	Lock     key
	Alarming bool
}

// kept is how many happenings are remembered.
const kept = 12

func newHappening(kind string, o fairlock.Overheard) (h happening, ok bool) {
	h = happening{At: time.Now(), Who: look.Who(o.Note, o.Owner), Token: o.Token, Lock: key{kind, o.Name}}
	switch o.Kind {
	case fairlock.Acquired:
		h.What = "handed to"
	case fairlock.Lost:
		h.What, h.Alarming = "forced from", true
	case fairlock.GaveUp:
		h.What, h.Alarming = "evicted", true
	case fairlock.Released:
		h.What, h.Who = "free again", ""
	default:
		return h, false
	}
	return h, true
}

// before returns a new slice with h before all.
func (h happening) before(all []happening) []happening {
	return append([]happening{h}, all[:min(len(all), kept-1)]...)
}
