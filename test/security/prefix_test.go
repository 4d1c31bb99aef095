package security

import (
	"errors"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/reentrant"
	"github.com/fairlock/locks/test/world"
)

func TestAFairAndAPlainLockerWithOnePrefixDoNotDisturbEachOther(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		for _, options := range [][]fairlock.Option{nil, {fairlock.WithPrefix("app")}} {
			fair, plain := fairlock.New(f.Direct, options...), reentrant.New(f.Direct, options...)
			ours, err := fair.TryLock(background, "x")
			f.Must(err)
			theirs, err := plain.TryLock(background, "x")
			f.Must(err)
			for locker, lease := range map[fairlock.Interface]*fairlock.Lease{fair: ours, plain: theirs} {
				listed := 0
				for state, err := range locker.List(background) {
					f.Must(err)
					if listed++; state.Name != "x" || state.Damaged != nil || state.Holder.Token != lease.Token() {
						f.Errorf("listed: %+v", state)
					}
				}
				if listed != 1 {
					f.Errorf("%d locks are listed", listed)
				}
			}
			begins, began := make(chan struct{}), time.Now()
			next := make(chan error, 1)
			go func() {
				lease, err := plain.Lock(background, "x", fairlock.OnQueued(func(int) { close(begins) }))
				if err == nil {
					err = lease.Unlock(background)
				}
				next <- err
			}()
			<-begins
			f.Must(theirs.Unlock(background))
			f.Must(<-next)
			if took := time.Since(began); took > world.Soon {
				f.Errorf("a plain release was heard after %v", took)
			}
			f.inPlace(ours, fair)
			f.Must(ours.Unlock(background))
			f.Must(fair.Close())
			f.Must(plain.Close())
		}
		f.Must(f.Direct.FlushAll(background).Err())
	})
}

// inPlace fails unless the Locker finds the lease's lock in its place.
func (f *faulty) inPlace(lease *fairlock.Lease, locker fairlock.Interface) {
	f.Helper()
	state, err := locker.Inspect(background, lease.Name())
	f.Must(err)
	if lease.Err() != nil || state.Holder == nil || state.Holder.Token != lease.Token() {
		f.Errorf("%v, %+v", lease.Err(), state)
	}
}

func TestAPrefixThatIsNestedInAnotherIsRefused(t *testing.T) {
	f := newFaultyEmbedded(t)
	for _, prefix := range []string{"app:lock", "app:plain", "a:queue:b"} {
		for _, kind := range []world.Kind{world.Fair, world.Plain} {
			locker := kind(f.Direct, fairlock.WithPrefix(prefix))
			if _, err := locker.TryLock(background, "x"); !errors.Is(err, fairlock.ErrInvalid) {
				t.Errorf("%s: %v", prefix, err)
			}
			f.Must(locker.Close())
		}
	}
}
