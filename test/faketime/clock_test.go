package faketime

import (
	"sync"
	"testing"
	"time"
)

// setBack sets the server's clock back. From then on it goes on as ours does, until the test ends.
func (b *bubble) setBack(by time.Duration) {
	b.Helper()
	show := func(now time.Time) { b.mini.SetTime(now.Add(-by)) }
	keys := b.mini.Keys()
	show(time.Now())
	for _, key := range keys { // the ends of keys are times by that clock
		b.mini.SetTTL(key, b.mini.TTL(key)+by)
	}
	over := make(chan struct{})
	var goes sync.WaitGroup
	b.Cleanup(func() { close(over); goes.Wait() })
	goes.Go(func() {
		for {
			select {
			case <-over:
				return
			case now := <-time.After(100 * time.Millisecond):
				show(now)
			}
		}
	})
}

func TestTokensGrowThoughTheServersClockWasSetBackDuringALongHold(t *testing.T) {
	ofBothKinds(t, func(s lossy) {
		a, _ := s.client()
		b, _ := s.client()
		first := s.lock(a)
		s.setBack(time.Hour)
		time.Sleep(15 * time.Minute)
		s.unlock(first)
		next := s.lock(b)
		if next.Token() <= first.Token() {
			t.Errorf("token %d after %d", next.Token(), first.Token())
		}
		s.unlock(next)
	})
}
