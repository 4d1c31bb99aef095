package fairlock_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
)

// outlive returns when the leases have been renewed for three times as long as they would last
// without.
func (f *faulty) outlive(leases ...*fairlock.Lease) {
	f.Helper()
	for _, lease := range leases {
		end := lease.Deadline().Add(2 * briefLease)
		f.until("it is renewed", func() bool { return lease.Err() != nil || lease.Deadline().After(end) })
		f.keeps(lease)
	}
}

func TestADamagedRecordCostsNoLockBesideItsOwn(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.behind(fairlock.WithLease(briefLease))
		good, bad, worse, after := a.locks("good"), a.locks("bad"), a.locks("worse"), a.locks("zoo")
		f.must(f.direct.HSet(faultCtx, f.keys("bad").Record(), "lease", "x").Err())
		fields := f.direct.HKeys(faultCtx, f.keys("worse").Record()).Val()
		for _, field := range fields {
			f.must(f.direct.HSet(faultCtx, f.keys("worse").Record(), field, "x").Err())
		}
		f.ends(worse)
		<-worse.Done()
		f.outlive(good, bad, after) // what was damaged beside its hold is healed
		for _, lease := range []*fairlock.Lease{good, bad, after} {
			f.unlocks(lease)
		}
	})
}

func TestAKeyThatIsForbiddenCostsNoLockBesideItsOwn(t *testing.T) {
	f := newFaulty(t)
	rules := func(keys ...any) {
		f.must(f.direct.Do(faultCtx, append([]any{"ACL", "SETUSER", "app", "reset", "on", "nopass", "+@all", "allchannels"}, keys...)...).Err())
	}
	rules("allkeys")
	a := f.user(&redis.Options{Addr: f.addr, Username: "app", Password: "any"}, fairlock.WithLease(briefLease))
	good, bad, after := a.locks("good"), a.locks("bad"), a.locks("zoo")
	rules("~*{good}", "~*{zoo}")
	<-bad.Done()
	f.outlive(good, after)
	f.unlocks(good)
	f.unlocks(after)
	rules("allkeys")
	f.ends(bad)
	f.until("the forbidden one has ended", func() bool { return f.holder("bad") == 0 })
}
