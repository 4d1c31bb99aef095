package faults

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/world"
)

// outlive returns when the leases have been renewed for three times their length.
func (f *faulty) outlive(leases ...*fairlock.Lease) {
	f.Helper()
	var ends []time.Time
	for _, lease := range leases {
		ends = append(ends, lease.Deadline().Add(2*world.CalmLease))
	}
	for i, lease := range leases {
		f.Until("it is renewed", func() bool { return lease.Err() != nil || lease.Deadline().After(ends[i]) })
		f.Keeps(lease)
	}
}

func TestADamagedRecordCostsNoLockBesideItsOwn(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.Behind(fairlock.WithLease(world.CalmLease))
		good, bad, worse, after := a.Locks("good"), a.Locks("bad"), a.Locks("worse"), a.Locks("zoo")
		f.Must(f.Direct.HSet(background, f.Keys("bad").Record(), "lease", "x").Err())
		fields := f.Direct.HKeys(background, f.Keys("worse").Record()).Val()
		for _, field := range fields {
			f.Must(f.Direct.HSet(background, f.Keys("worse").Record(), field, "x").Err())
		}
		f.Ends(worse)
		<-worse.Done()
		f.outlive(good, bad, after) // the damage beside bad's hold is repaired
		for _, lease := range []*fairlock.Lease{good, bad, after} {
			f.Unlocks(lease)
		}
	})
}

func TestAKeyThatIsForbiddenCostsNoLockBesideItsOwn(t *testing.T) {
	f := newFaulty(t)
	rules := func(keys ...any) {
		f.Must(f.Direct.Do(background, append([]any{"ACL", "SETUSER", "app", "reset", "on", "nopass", "+@all", "allchannels"}, keys...)...).Err())
	}
	rules("allkeys")
	a := f.User(&redis.Options{Addr: f.Addr, Username: "app", Password: "any"}, fairlock.WithLease(world.CalmLease))
	good, bad, after := a.Locks("good"), a.Locks("bad"), a.Locks("zoo")
	rules("~*{good}", "~*{zoo}")
	<-bad.Done()
	f.outlive(good, after)
	f.Unlocks(good)
	f.Unlocks(after)
	rules("allkeys")
	f.Ends(bad)
	f.Until("the forbidden one has ended", func() bool { return f.Holder("bad") == 0 })
}
