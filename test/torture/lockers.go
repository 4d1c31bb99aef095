package torture

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/reentrant"
)

// locker is one of a worker's Lockers, with its number in that worker.
type locker struct {
	fairlock.Interface
	number int
}

// desks are the places for the Lockers that a worker's hands use now. All Lockers but the last are
// closed at any instant, while they are in use, and another takes the place.
const (
	fairDesk = iota
	plainDesk
	// Fair, and open to the end: no Close is to blame for what this one leaves behind.
	steadyDesk
	desks
)

// open puts a new Locker in a place.
func (w *worker) open(place int) {
	options := []fairlock.Option{fairlock.WithLease(leaseTime), fairlock.WithObserver(w), fairlock.WithLogger(w.logger())}
	l := &locker{number: int(w.lockers.Add(1))}
	switch {
	case w.nodes != nil:
		l.Interface = w.quorum()
	case place == plainDesk:
		l.Interface = reentrant.New(w.rdb, options...)
	default:
		l.Interface = fairlock.New(w.rdb, options...)
	}
	w.desks[place].Store(l)
}

// janitor closes Lockers, one after the other.
type janitor struct{ hand }

func (j *janitor) work() {
	for !j.over() {
		j.wait(j.between(500*time.Millisecond, 3*time.Second))
		place := j.random.IntN(steadyDesk)
		old := j.desks[place].Load()
		switch {
		case j.over():
		case j.chance(40):
			j.drain(old)
			j.open(place)
		case j.chance(50):
			j.open(place)
			j.close(old)
		default:
			j.close(old)
			j.open(place)
		}
	}
}

// wait waits for d, or until the worker is to end.
func (j *janitor) wait(d time.Duration) {
	select {
	case <-j.quit:
	case <-time.After(d):
	}
}

func (w *worker) close(l *locker) {
	w.journal.note(event{Kind: closing, Locker: l.number, How: "Close"})
	_ = l.Close() // it never fails
	w.journal.note(event{Kind: closed, Locker: l.number})
}

// draining is how long a lock is held while its Locker is shut down.
const draining = 300 * time.Millisecond

// drain shuts a Locker down while a lock is held. For that time the Locker refuses all callers that
// hold none.
func (j *janitor) drain(l *locker) {
	held, err := l.TryLock(context.Background(), "drain-"+j.Process)
	j.journal.note(event{Kind: closing, Locker: l.number, How: "Shutdown"})
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), 2*draining)
		defer cancel()
		_ = l.Shutdown(ctx) // what is still held then is not Shutdown's fault
		j.journal.note(event{Kind: closed, Locker: l.number})
	}()
	if err == nil {
		for end := time.Now().Add(draining); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if _, err := l.TryLock(context.Background(), "drained-"+j.Process); errors.Is(err, fairlock.ErrClosed) {
				j.journal.note(event{Kind: drains, Locker: l.number})
				time.Sleep(time.Until(end))
				break
			}
		}
		_ = held.Unlock(context.Background()) // the lease ends anyway
	}
	<-done
}

// newHand returns a hand with a random source of its own.
func (w *worker) newHand(i int) (*hand, error) {
	d, err := openDesk(w.Resource)
	return &hand{worker: w, number: i, random: rand.New(rand.NewPCG(w.Seed, uint64(i))), desk: d}, err //nolint:gosec // it is not negative
}
