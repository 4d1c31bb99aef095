// Command standby has one active instance of a service, and others that wait in line as its backups. The active one is killed,
// and the next takes over; again, with whoever comes back at the end of the line; and then one is asked to end, which costs no
// time at all.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/locks/examples/internal/stage"
	"github.com/fairlock/locks/fairlock"
)

// leaseTime is how long it takes at most until a backup takes over from an active instance that has died.
const leaseTime = 2 * time.Second

func main() { stage.Main(play, serve) }

// event is what an instance tells.
type event struct {
	Instance string
	What     what
	Position int   // in line
	Token    int64 // larger than that of every instance that was active before
}

type what string

const (
	waits    what = "waits"
	active   what = "active"
	works    what = "works"
	finished what = "finished" // but not yet unlocked
)

// serve is an instance: a backup until it has the lock, and then active for as long as it can trust it.
func serve(ctx context.Context, s *stage.Stage, name string) error {
	locker := fairlock.New(s.Redis, fairlock.WithPrefix(s.Prefix), fairlock.WithLease(leaseTime))
	defer locker.Close()

	tell := func(what what, position int, token int64) { s.Tell(event{name, what, position, token}) }
	isQueued := fairlock.OnQueued(func(position int) { tell(waits, position, 0) })

	return locker.Do(ctx, "active", func(ctx context.Context, lease *fairlock.Lease) error {
		tell(active, 0, lease.Token())
		// The work of the active instance. ctx ends when it is to end, or with the trust in the lock: before anybody else
		// can be active. What it writes carries the token, for others to refuse what comes too late all the same.
		for {
			select {
			case <-time.After(50 * time.Millisecond):
				tell(works, 0, lease.Token())
			case <-ctx.Done():
				tell(finished, 0, lease.Token())
				return context.Cause(ctx)
			}
		}
	}, isQueued, fairlock.Note(fmt.Sprintf("instance %s", name)))
}
