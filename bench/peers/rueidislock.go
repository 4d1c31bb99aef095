package peers

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidislockPeer waits for the server's word that a key has changed (client-side caching). Its client pipelines by itself.
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

// Lock tells that it waits by its context: that is asked when it ends once before each attempt, and once after a refusal.
func (l *rueidisLocker) Lock(ctx context.Context, name string, queued func()) (Lock, error) {
	if queued != nil {
		ctx = &refusals{Context: ctx, queued: queued}
	}
	_, cancel, err := l.locker.WithContext(ctx, name)
	return rueidisHeld(cancel), err
}

// refusals is a context that calls queued when it is asked for the second time when it ends.
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
