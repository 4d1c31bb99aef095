package quorum

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

func TestALockIsHadWaitedForAndHandedOver(t *testing.T) {
	onBoth(t, func(w *world) {
		a, b := w.locker(), w.locker()
		lease := w.has(a, "x")
		w.refused(w.Context(), b)
		next := w.queues(b, "x")
		w.unlock(lease)
		second := w.gets(next)
		if second.Token() <= lease.Token() {
			w.Errorf("token %d after %d", second.Token(), lease.Token())
		}
		w.unlock(second)
		w.unlock(w.has(a, "x"))
		w.nothing()
	})
}

func TestWaitersAreServedInTheOrderInWhichTheyCame(t *testing.T) {
	onBoth(t, func(w *world) {
		lockers := []*Locker{w.locker(), w.locker(), w.locker()}
		lease := w.has(lockers[0], "x")
		var waiting []<-chan outcome
		for i := range 9 {
			waiting = append(waiting, w.queues(lockers[i%3], "x"))
		}
		last := lease.Token()
		w.unlock(lease)
		for i, next := range waiting {
			lease := w.gets(next)
			for j := i + 1; j < len(waiting); j++ {
				if len(waiting[j]) > 0 {
					w.Errorf("%d came before %d", j, i)
				}
			}
			if lease.Token() <= last {
				w.Errorf("token %d after %d", lease.Token(), last)
			}
			last = lease.Token()
			w.unlock(lease)
		}
		w.nothing()
	})
}

func TestAHerdOnAFreeLockIsServedOneByOne(t *testing.T) {
	onBoth(t, func(w *world) {
		lockers := []*Locker{w.locker(), w.locker(), w.locker(), w.locker()}
		var all sync.WaitGroup
		var mu sync.Mutex
		inside, last := 0, int64(0)
		turns := 3
		if w.servers == nil { // embedded nodes take much of this process's own time
			turns = 1
		}
		for i := range 64 {
			all.Go(func() {
				for range turns {
					// A turn on embedded nodes takes 100 ms at times.
					ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
					lease, err := lockers[i%4].Lock(ctx, "x")
					cancel()
					if err != nil {
						w.Errorf("%v", err)
						return
					}
					mu.Lock()
					if inside++; inside > 1 || lease.Token() <= last {
						w.Errorf("%d inside, token %d after %d", inside, lease.Token(), last)
					}
					last = lease.Token()
					mu.Unlock()
					time.Sleep(100 * time.Microsecond)
					mu.Lock()
					inside--
					mu.Unlock()
					began := time.Now()
					err = lease.Unlock(context.Background())
					// Embedded nodes may all be silent until the claim ends. The leave goes on.
					busy := w.servers == nil && errors.Is(err, ErrUnreachable) && time.Since(began) >= 2*time.Second
					if err != nil && !busy {
						w.Errorf("%v", err)
					}
				}
			})
		}
		began := time.Now()
		all.Wait()
		w.Logf("%d turns in %v", 64*turns, time.Since(began))
		w.nothing()
	})
}
