package peers

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidislockPeer waits for the server's word that a key has changed (client-side caching). Its client pipelines by itself.
//
// A waiter may be forgotten, and then waits on a free lock until its context ends: version 1.0.79 starts the goroutine that
// cleans up after an attempt before it counts the refusal, and if that goroutine is the faster one, it takes the refusal for
// a release and drops the waiter's gate. It is measured as it is.
var rueidislockPeer = Peer{
	Name: "rueidislock", Server: Redis, Module: "github.com/redis/rueidis", Requests: append([]string{"client"}, scripted...),
	Open: func(c Config) (Locker, error) { return newRueidislock(c) },
	About: "KeyMajority 1, NoLoopTracking, TryNextAfter 1 s (its 20 ms are less than the slow link's round trip); " +
		"a line of none where the workload has one: TryWithContext",
}

type rueidisLocker struct{ locker rueidislock.Locker }

func newRueidislock(c Config) (*rueidisLocker, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{c.Addr}, ConnWriteTimeout: 30 * time.Second},
		KeyMajority:    1,
		KeyValidity:    c.Lease,
		TryNextAfter:   time.Second,
		NoLoopTracking: true,
	})
	return &rueidisLocker{locker}, err
}

// Lock tells that it waits by its context: one that cannot end is asked for its end once before an attempt, and again after
// a refusal.
func (l *rueidisLocker) Lock(ctx context.Context, name string, queued func()) (Lock, error) {
	if queued != nil && ctx.Done() == nil {
		ctx = &refusals{Context: ctx, queued: queued}
	}
	_, cancel, err := l.locker.WithContext(ctx, name)
	return rueidisHeld(cancel), err
}

// refusals is a context that calls queued when it is asked for its end for the second time.
type refusals struct {
	context.Context
	asked  int
	queued func()
}

// Done counts; its caller is one goroutine.
func (r *refusals) Done() <-chan struct{} {
	if r.asked++; r.asked == 2 {
		r.queued()
	}
	return r.Context.Done()
}

// Try asks once.
func (l *rueidisLocker) Try(ctx context.Context, name string, _ int) (Lock, error) {
	_, cancel, err := l.locker.TryWithContext(ctx, name)
	if errors.Is(err, rueidislock.ErrNotLocked) {
		return nil, ErrRefused
	}
	return rueidisHeld(cancel), err
}

// Close closes Locker and client.
func (l *rueidisLocker) Close() error {
	l.locker.Close()
	return nil
}

type rueidisHeld context.CancelFunc

// Unlock returns when the server has answered; how, it is not told.
func (h rueidisHeld) Unlock(context.Context) error {
	h()
	return nil
}
