package peers

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidislockPeer waits until the server says that a key has changed (client-side caching). Its
// client pipelines by itself.
//
// Version 1.0.79 may forget a waiter, which then waits on a free lock until its context ends. It
// starts the goroutine that cleans up after an attempt before it counts the refusal. If that
// goroutine is faster, it takes the refusal for a release and drops the waiter's gate. The peer is
// measured as it is.
var rueidislockPeer = Peer{
	Name: "rueidislock", Server: Redis, Module: "github.com/redis/rueidis", Requests: append([]string{"client"}, scripted...),
	Cannot: map[string]string{"burst": "may forget a waiter, and then the burst has no end"},
	Open:   func(c Config) (Locker, error) { return newRueidislock(c) },
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

// Lock learns from the context whether rueidislock waits: rueidislock calls Done of a context that
// cannot end once before an attempt, and again after a refusal.
func (l *rueidisLocker) Lock(ctx context.Context, name string, queued func()) (Lock, error) {
	if queued != nil && ctx.Done() == nil {
		ctx = &refusals{Context: ctx, queued: queued}
	}
	_, cancel, err := l.locker.WithContext(ctx, name)
	return rueidisHeld(cancel), err
}

// refusals is a context that calls queued at the second call of Done.
type refusals struct {
	context.Context
	asked  int
	queued func()
}

// Done counts its calls. They come from one goroutine.
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

// Close closes the Locker and the client.
func (l *rueidisLocker) Close() error {
	l.locker.Close()
	return nil
}

type rueidisHeld context.CancelFunc

// Unlock returns when the server has answered. rueidislock does not pass the answer on.
func (h rueidisHeld) Unlock(context.Context) error {
	h()
	return nil
}
