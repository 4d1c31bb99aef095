package rolling

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/world"
)

// mixed is a server with a Locker of a released version and one of today.
type mixed struct {
	*world.Faulty
	a, b *world.User // one of each, either way around
}

var background = context.Background()

// eachWay runs the test with the scripts of each released version beside those of today, and with
// the two in each other's place.
func eachWay(t *testing.T, plain bool, test func(m mixed)) {
	for version, old := range released(t) {
		for _, oldFirst := range []bool{true, false} {
			t.Run(version, func(t *testing.T) {
				world.OnFaulty(t, func(f *world.Faulty) {
					if plain {
						f.Plain()
					}
					rdb := redis.NewClient(&redis.Options{Addr: f.Addr})
					rdb.AddHook(old)
					m := mixed{f, f.With(rdb, fairlock.WithLease(3*time.Second)), f.Beside(fairlock.WithLease(3 * time.Second))}
					if !oldFirst {
						m.a, m.b = m.b, m.a
					}
					test(m)
					m.ran(old)
				})
			})
		}
	}
}

// ran fails unless the scripts of the version have been in use.
func (m mixed) ran(old scripts) {
	m.Helper()
	for _, text := range old {
		exists, err := m.Direct.ScriptExists(background, hash(text)).Result()
		m.Must(err)
		if exists[0] {
			return
		}
	}
	m.Error("none of the version's scripts was run")
}

func (m mixed) is(err, target error) {
	m.Helper()
	if !errors.Is(err, target) {
		m.Errorf("%v, not %v", err, target)
	}
}

func TestAReleasedVersionAndTodaysGrantEachOtherALockInOrder(t *testing.T) {
	eachWay(t, false, func(m mixed) {
		lease := m.a.Locks("x")
		line := []*world.Wait{m.b.Queues("x", 1), m.a.Queues("x", 2), m.b.Queues("x", 3)}
		last := lease.Token()
		m.Unlocks(lease)
		for _, next := range line {
			lease := next.Gets()
			if lease.Token() <= last {
				m.Errorf("token %d after %d", lease.Token(), last)
			}
			last = lease.Token()
			m.Unlocks(lease)
		}
	})
}

func TestAReleasedVersionAndTodaysKeepALockThatTheOtherGranted(t *testing.T) {
	eachWay(t, false, func(m mixed) {
		lease := m.a.Locks("x")
		next := m.b.Queues("x", 1)
		m.Unlocks(lease)
		lease = next.Gets()
		m.RenewedAfter(lease)
		_, err := m.a.TryLock(background, "x")
		m.is(err, fairlock.ErrHeld)
		m.Unlocks(lease)
	})
}

func TestAReleasedVersionAndTodaysShareTheLockOfANamedOwner(t *testing.T) {
	eachWay(t, false, func(m mixed) {
		one, err := m.a.Lock(background, "x", fairlock.WithOwner("saga"))
		m.Must(err)
		other, err := m.b.Lock(background, "x", fairlock.WithOwner("saga"))
		m.Must(err)
		if one.Token() != other.Token() {
			m.Errorf("tokens %d and %d", one.Token(), other.Token())
		}
		m.Must(one.Unlock(background))
		_, err = m.a.TryLock(background, "x")
		m.is(err, fairlock.ErrHeld)
		m.Must(other.Unlock(background))
		m.Unlocks(m.a.Locks("x"))
	})
}

func TestAReleasedVersionAndTodaysCanForceAndEvictEachOther(t *testing.T) {
	eachWay(t, false, func(m mixed) {
		lease := m.a.Locks("x")
		next := m.a.Queues("x", 1)
		state, err := m.b.Inspect(background, "x")
		m.Must(err)
		m.Must(m.b.Interface.(*fairlock.Locker).Evict(background, "x", state.Waiters[0].ID))
		m.is(next.Fails(), fairlock.ErrEvicted)
		m.Must(m.b.ForceUnlock(background, "x"))
		m.Ends(lease)
		m.Until("its holder is told", func() bool { return lease.Err() != nil })
		m.is(lease.Err(), fairlock.ErrLost)
		m.Unlocks(m.b.Locks("x"))
	})
}

func TestAReleasedVersionAndTodaysBringBackALockThatTheServerLost(t *testing.T) {
	eachWay(t, false, func(m mixed) {
		lease := m.a.Locks("x")
		m.Must(m.Direct.FlushDB(background).Err())
		m.RenewedAfter(lease)
		_, err := m.b.TryLock(background, "x")
		m.is(err, fairlock.ErrHeld)
		m.Unlocks(lease)
	})
}

func TestAReleasedVersionAndTodaysTakeTurnsOnAPlainLock(t *testing.T) {
	eachWay(t, true, func(m mixed) {
		for range 3 {
			lease := m.a.Locks("x")
			next := m.b.WaitsPlainly("x")
			m.Unlocks(lease)
			m.Unlocks(next.Gets())
		}
	})
}
