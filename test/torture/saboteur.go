package torture

import (
	"slices"
	"time"
)

// saboteur harms the server, the workers and the connections between them. The seed decides what he
// does, and in which order. The exact times, and what the harm hits, differ from run to run. A
// saboteur belongs to the test's own goroutine.
type saboteur struct {
	*arena
	deck[*saboteur]
}

// Between two tricks there is hardly time to recover; after a deck there is.
const (
	leastPause, mostPause = 150 * time.Millisecond, 900 * time.Millisecond
	calm                  = 3 * time.Second
)

// strike plays the next trick, and returns how long to pause.
func (s *saboteur) strike() time.Duration {
	if len(s.left) == 0 {
		first := s.left == nil
		s.shuffle(s.random)
		if first { // what takes long begins soon
			at := slices.IndexFunc(s.left, func(t trick[*saboteur]) bool { return t.name == "long outage" })
			s.left[at], s.left[len(s.left)-1] = s.left[len(s.left)-1], s.left[at]
		}
	}
	s.deal(s)
	if len(s.left) == 0 {
		return calm
	}
	return s.between(leastPause, mostPause)
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
