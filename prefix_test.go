package fairlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/reentrant"
)

func TestAFairAndAPlainLockerWithOnePrefixDoNotDisturbEachOther(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		for _, options := range [][]fairlock.Option{nil, {fairlock.WithPrefix("app")}} {
			fair, plain := fairlock.New(f.direct, options...), reentrant.New(f.direct, options...)
			ours, err := fair.TryLock(faultCtx, "x")
			f.must(err)
			theirs, err := plain.TryLock(faultCtx, "x")
			f.must(err)
			for locker, lease := range map[fairlock.Interface]*fairlock.Lease{fair: ours, plain: theirs} {
				listed := 0
				for state, err := range locker.List(faultCtx) {
					f.must(err)
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
				lease, err := plain.Lock(faultCtx, "x", fairlock.OnQueued(func(int) { close(begins) }))
				if err == nil {
					err = lease.Unlock(faultCtx)
				}
				next <- err
			}()
			<-begins
			f.must(theirs.Unlock(faultCtx))
			f.must(<-next)
			if took := time.Since(began); took > faultSoon {
				f.Errorf("a plain release was heard after %v", took)
			}
			f.inPlace(ours, fair)
			f.must(ours.Unlock(faultCtx))
			f.must(fair.Close())
			f.must(plain.Close())
		}
		f.must(f.direct.FlushAll(faultCtx).Err())
	})
}

// inPlace fails unless the Locker finds the lease in its place.
func (f *faulty) inPlace(lease *fairlock.Lease, locker fairlock.Interface) {
	f.Helper()
	state, err := locker.Inspect(faultCtx, lease.Name())
	f.must(err)
	if lease.Err() != nil || state.Holder == nil || state.Holder.Token != lease.Token() {
		f.Errorf("%v, %+v", lease.Err(), state)
	}
}

func TestAPrefixThatIsNestedInAnotherIsRefused(t *testing.T) {
	f := newFaultyEmbedded(t)
	for _, prefix := range []string{"app:lock", "app:plain", "a:queue:b"} {
		for _, kind := range []newLocker{newFair, newPlain} {
			locker := kind(f.direct, fairlock.WithPrefix(prefix))
			if _, err := locker.TryLock(faultCtx, "x"); !errors.Is(err, fairlock.ErrInvalid) {
				t.Errorf("%s: %v", prefix, err)
			}
			f.must(locker.Close())
		}
	}
}
