package torture

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// schedule is when troubles begin and end. It belongs to the test's own goroutine.
type schedule struct {
	random   *rand.Rand
	troubles []*trouble
	repairs  []repair       // what is yet to be undone, soonest first
	asides   sync.WaitGroup // tricks that do not return at once
}

// repair ends a trouble when it is due.
type repair struct {
	at  time.Time
	end func()
}

// rage has strike do harm until then, and ends each trouble when it is due. strike returns how long
// to pause after it.
func (s *schedule) rage(until time.Time, strike func() time.Duration) {
	next := time.Now().Add(calm / 2)
	for {
		at := until
		if next.Before(at) {
			at = next
		}
		if len(s.repairs) > 0 && s.repairs[0].at.Before(at) {
			time.Sleep(time.Until(s.repairs[0].at))
			s.mend()
			continue
		}
		time.Sleep(time.Until(at))
		if !at.Before(until) {
			break
		}
		pause := strike()
		next = time.Now().Add(pause)
	}
	for len(s.repairs) > 0 {
		s.mend()
	}
	s.asides.Wait()
}

// mend ends the trouble that is due first.
func (s *schedule) mend() {
	r := s.repairs[0]
	s.repairs = s.repairs[1:]
	r.end()
}

// trouble notes a trouble that begins now.
func (s *schedule) trouble(kind string, seat int) *trouble {
	t := &trouble{Kind: kind, Seat: seat, From: now()}
	s.troubles = append(s.troubles, t)
	return t
}

// lasting notes a trouble that begins now, and calls end for it after d.
func (s *schedule) lasting(kind string, seat int, d time.Duration, end func()) {
	s.later(s.trouble(kind, seat), d, end)
}

// later calls end for a trouble after d.
func (s *schedule) later(t *trouble, d time.Duration, end func()) {
	s.after(d, func() {
		end()
		t.To = now()
	})
}

// after calls f after d.
func (s *schedule) after(d time.Duration, f func()) {
	s.repairs = append(s.repairs, repair{time.Now().Add(d), f})
	slices.SortStableFunc(s.repairs, func(a, b repair) int { return a.at.Compare(b.at) })
}

func (s *schedule) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.random.Int64N(int64(most-least)))
}

// trick is a way to do harm. play returns false if it found no victim.
type trick[S any] struct {
	name string
	play func(S) bool
}

// deck holds each trick once, so that all of them occur.
type deck[S any] struct {
	all, left []trick[S]
	counts    map[string]int // tricks played, by name
}

// shuffle makes the deck anew. What was never played is on top: on a busy machine, a run may end in
// its second deck.
func (d *deck[S]) shuffle(random *rand.Rand) {
	d.left = slices.Clone(d.all)
	random.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	slices.SortStableFunc(d.left, func(a, b trick[S]) int { return min(1, d.counts[b.name]) - min(1, d.counts[a.name]) })
}

// deal plays the next trick. A trick without a victim comes later; the last one comes with the next
// deck.
func (d *deck[S]) deal(s S) {
	last := len(d.left) - 1
	t := d.left[last]
	d.left = d.left[:last]
	switch {
	case t.play(s):
		d.counts[t.name]++
	case len(d.left) > 0:
		d.left = slices.Insert(d.left, 0, t)
	}
}
