// Command standby has one active instance of a service; the others wait in line as its backups. The
// active instance is killed, and the next takes over. The same happens again, after the first
// instance has come back to the end of the line. At last the active instance is asked to end, and
// the next takes over without any delay.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/locks/examples/internal/stage"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/leader"
)

// leaseTime is the longest time until a backup takes over from an active instance that has died.
const leaseTime = 4 * time.Second

func main() { stage.Main(play, serve) }

// event is what an instance tells.
type event struct {
	Instance string
	What     what
	Position int   // in line
	Token    int64 // larger than the token of every instance that was active before
}

type what string

const (
	waits    what = "waits"
	active   what = "active"
	works    what = "works"
	finished what = "finished" // but has not unlocked yet
)

// serve is an instance: a backup until it has the lock, and then active as long as it can trust the
// lock.
func serve(ctx context.Context, s *stage.Stage, name string) error {
	locker := fairlock.New(s.Redis, fairlock.WithPrefix(s.Prefix), fairlock.WithLease(leaseTime))
	defer locker.Close()

	tell := func(what what, position int, token int64) { s.Tell(event{name, what, position, token}) }
	isQueued := fairlock.OnQueued(func(position int) { tell(waits, position, 0) })

	return leader.Run(ctx, locker, "active", func(ctx context.Context, lease *fairlock.Lease) error {
		tell(active, 0, lease.Token())
		// This is the work of the active instance. ctx ends when the instance has to end, or when
		// the lock can no longer be trusted, which is before another instance can be active. What
		// the instance writes should carry the token: then a store can refuse a write that comes
		// too late all the same.
		for {
			select {
			case <-time.After(50 * time.Millisecond):
				tell(works, 0, lease.Token())
			case <-ctx.Done():
				tell(finished, 0, lease.Token())
				return context.Cause(ctx)
			}
		}
	}, leader.WithLock(isQueued, fairlock.Note(fmt.Sprintf("instance %s", name))))
}
