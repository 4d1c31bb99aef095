package torture

import (
	"slices"
	"sync"
	"time"
)

// saboteur harms the server, the workers and the connections between them. The seed decides what he
// does, and in which order. The exact times, and what the harm hits, differ from run to run. A
// saboteur belongs to the test's own goroutine.
type saboteur struct {
	*arena
	deck    []trick
	repairs []repair       // what is yet to be undone, soonest first
	counts  map[string]int // tricks played, by name
	asides  sync.WaitGroup // tricks that do not return at once
}

// trick is a way to do harm. play returns false if it found no victim.
type trick struct {
	name string
	play func(*saboteur) bool
}

// repair ends a trouble when it is due.
type repair struct {
	at  time.Time
	end func()
}

// Every deck holds each trick once, so that all of them occur. Between two tricks there is hardly
// time to recover; after a deck there is.
const (
	leastPause, mostPause = 150 * time.Millisecond, 900 * time.Millisecond
	calm                  = 3 * time.Second
)

// rage does harm until then, and ends each trouble when it is due.
func (s *saboteur) rage(until time.Time) {
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
		s.strike()
		next = time.Now().Add(s.between(leastPause, mostPause))
		if len(s.deck) == 0 {
			next = time.Now().Add(calm)
		}
	}
	for len(s.repairs) > 0 {
		s.mend()
	}
	s.asides.Wait()
}

// strike plays the next trick.
func (s *saboteur) strike() {
	first := s.deck == nil
	if len(s.deck) == 0 {
		s.deck = slices.Clone(tricks)
		s.random.Shuffle(len(s.deck), func(i, j int) { s.deck[i], s.deck[j] = s.deck[j], s.deck[i] })
	}
	if first { // what takes long begins soon
		at := slices.IndexFunc(s.deck, func(t trick) bool { return t.name == "long outage" })
		s.deck[at], s.deck[len(s.deck)-1] = s.deck[len(s.deck)-1], s.deck[at]
	}
	last := len(s.deck) - 1
	t := s.deck[last]
	s.deck = s.deck[:last]
	switch {
	case t.play(s):
		s.counts[t.name]++
	case len(s.deck) > 0:
		s.deck = slices.Insert(s.deck, 0, t) // later; the last one comes with the next deck
	}
}

// mend ends the trouble that is due first.
func (s *saboteur) mend() {
	r := s.repairs[0]
	s.repairs = s.repairs[1:]
	r.end()
}

// trouble notes a trouble that begins now.
func (s *saboteur) trouble(kind string, seat int) *trouble {
	t := &trouble{Kind: kind, Seat: seat, From: now()}
	s.troubles = append(s.troubles, t)
	return t
}

// lasting notes a trouble that begins now, and calls end for it after d.
func (s *saboteur) lasting(kind string, seat int, d time.Duration, end func()) {
	s.later(s.trouble(kind, seat), d, end)
}

// later calls end for a trouble after d.
func (s *saboteur) later(t *trouble, d time.Duration, end func()) {
	s.repairs = append(s.repairs, repair{time.Now().Add(d), func() {
		end()
		t.To = now()
	}})
	s.sortRepairs()
}

func (s *saboteur) sortRepairs() {
	slices.SortStableFunc(s.repairs, func(a, b repair) int { return a.at.Compare(b.at) })
}

// anyone returns a seat that suits, or nil.
func (s *saboteur) anyone(suits func(*seat) bool) *seat {
	for _, i := range s.random.Perm(seats) {
		if suits(s.seats[i]) {
			return s.seats[i]
		}
	}
	return nil
}

func (s *saboteur) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.random.Int64N(int64(most-least)))
}
