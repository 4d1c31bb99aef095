package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/world"
)

// detached is a context that somebody has taken from its parent's end, and not from its deadline.
type detached struct{ context.Context }

func (detached) Done() <-chan struct{} { return nil }
func (detached) Err() error            { return nil }

func TestAContextThatNeverEndsAndHasADeadlineAllTheSameHangsNoCall(t *testing.T) {
	onBothKinds(t, func(f *faulty) {
		a := f.User(&redis.Options{Addr: f.Addr, ContextTimeoutEnabled: true})
		lease := f.Beside().Locks("x")
		a.Locks("y") // the first contact
		for at, options := range map[time.Duration][]fairlock.LockOption{
			-time.Second: {fairlock.WaitAtMost(0)}, 100 * time.Millisecond: {fairlock.WaitAtMost(time.Second)},
		} {
			ctx, cancel := context.WithDeadline(background, time.Now().Add(at))
			f.Within(world.Patience, "the call", func() {
				if _, err := a.Lock(detached{ctx}, "x", options...); !errors.Is(err, fairlock.ErrHeld) {
					f.Errorf("deadline %v: %v", at, err)
				}
			})
			cancel()
		}
		f.Unlocks(lease)
		f.Unlocks(f.Oldest())
	})
}
