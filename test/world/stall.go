package world

import (
	"sync"
	"time"
)

// Stalls measures for how long this busy machine stands still, as far as this process sees it.
type Stalls struct {
	mu    sync.Mutex // guards what follows
	total time.Duration
	last  time.Time // when it was last seen to go on

	ends, ended chan struct{}
}

// WatchStalls begins to measure. Close has to end it.
func WatchStalls() *Stalls {
	s := &Stalls{last: time.Now(), ends: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		for {
			select {
			case <-s.ends:
				return
			case <-time.After(10 * time.Millisecond):
				s.Total()
			}
		}
	}()
	return s
}

// Total returns for how long the machine has stood still so far. Whoever asks may go on before the
// goroutine that measures does.
func (s *Stalls) Total() time.Duration {
	const busy = 100 * time.Millisecond
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if gap := now.Sub(s.last); gap > busy {
		s.total += gap
	}
	s.last = now
	return s.total
}

// Close ends the measuring.
func (s *Stalls) Close() {
	close(s.ends)
	<-s.ended
}
