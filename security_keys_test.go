package fairlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
)

// forger may touch the keys of the lock "mine", and publish nothing: what is told of that lock is
// told by those who use it.
type forger struct {
	*target
	rdb  *redis.Client
	mine lua.Keys
}

func (f *faulty) forged() *forger {
	f.Helper()
	return &forger{f.targeted(), f.may("~fairlock:*:{mine}", onlyKeys, "resetchannels"), f.keys("mine")}
}

// line puts a ticket first in line.
func (g *forger) line(ticket string) {
	g.Helper()
	g.must(g.rdb.LPush(faultCtx, g.mine.Queue(), "1:"+ticket).Err())
	g.must(g.rdb.ZAdd(faultCtx, g.mine.Waiters(), redis.Z{Score: float64(g.serverMillis() + 15000), Member: ticket}).Err())
}

// hold puts a hold of a ticket into the record.
func (g *forger) hold(ticket string, more ...any) {
	g.Helper()
	fields := append([]any{ticket, fmt.Sprintf("%d:1", g.serverMillis()+30000)}, more...)
	g.must(g.rdb.HSet(faultCtx, g.mine.Record(), fields...).Err())
}

// forging is what a forger has others say.
var forging = map[string]func(g *forger){
	"a release tells the next in line that it is granted": func(g *forger) {
		lease := g.other.locks("mine")
		g.line(g.waits)
		g.unlocks(lease)
	},
	"a release tells one whose ticket says where its message ends": func(g *forger) {
		lease := g.other.locks("mine")
		g.line(g.waits + " " + g.keys("bank").Record())
		g.unlocks(lease)
	},
	"a release of its own is answered with a grant to another ticket": func(g *forger) {
		lease := g.user.locks("mine")
		g.line(g.waits)
		g.unlocks(lease)
	},
	"what was granted while it was not heard is told when it asks": func(g *forger) {
		lease := g.other.locks("mine")
		g.hold(g.waits)
		blind := redis.Z{Score: -float64(g.serverMillis() + 60000), Member: "~" + g.client()}
		g.must(g.rdb.ZAdd(faultCtx, g.mine.Waiters(), blind).Err())
		ctx, cancel := context.WithCancel(faultCtx)
		w := g.user.asks(ctx, "mine")
		w.inLine(1)
		cancel()
		_ = w.fails()
		g.ends(lease)
	},
	"a force tells who holds": func(g *forger) {
		lease := g.other.locks("mine")
		g.ends(lease)
		g.hold(g.holds, "token", g.held.Token())
		g.must(g.other.ForceUnlock(faultCtx, "mine"))
	},
	"a force tells one that it will have lost what it has yet to get": func(g *forger) {
		lease := g.other.locks("mine")
		g.ends(lease)
		g.hold(g.waits, "token", g.bank.Token()+1e12)
		g.must(g.other.ForceUnlock(faultCtx, "mine"))
	},
	"an eviction tells who waits": func(g *forger) {
		lease := g.other.locks("mine")
		g.ends(lease)
		g.line(g.waits)
		ticket, err := lua.ParseTicket(g.waits)
		g.must(err)
		g.must(g.other.Interface.(*fairlock.Locker).Evict(faultCtx, "mine", ticket.ID()))
	},
}

func TestWhoMayTouchOneLocksKeysGivesNoOtherLockAwayAndEndsNoOther(t *testing.T) {
	tests := make(map[string]func(*testing.T))
	for what, forges := range forging {
		tests[what] = func(t *testing.T) {
			g := newFaulty(t).forged()
			g.forbids("touching the other lock", g.rdb.Del(faultCtx, g.keys("bank").Record()).Err())
			forges(g)
			g.undisturbed(what)
			g.goesOn()
			g.must(g.rdb.Del(faultCtx, g.mine.Record(), g.mine.Queue(), g.mine.Waiters(), g.mine.Token()).Err())
		}
	}
	together(t, tests)
}

// damages are what somebody may write into the keys of a lock that is held.
var damages = map[string]func(g *forger, k lua.Keys, ticket string) error{
	"a hold that ends at no time": func(g *forger, k lua.Keys, ticket string) error {
		return g.rdb.HSet(faultCtx, k.Record(), ticket, "soon").Err()
	},
	"a hold that is empty": func(g *forger, k lua.Keys, ticket string) error {
		return g.rdb.HSet(faultCtx, k.Record(), ticket, "").Err()
	},
	"a hold without end": func(g *forger, k lua.Keys, ticket string) error {
		return g.rdb.HSet(faultCtx, k.Record(), ticket, "99999999999999999999999999:1").Err()
	},
	"a lease that is no number": func(g *forger, k lua.Keys, _ string) error {
		return g.rdb.HSet(faultCtx, k.Record(), "lease", "long").Err()
	},
	"a lease without end": func(g *forger, k lua.Keys, _ string) error {
		return g.rdb.HSet(faultCtx, k.Record(), "lease", "1e300").Err()
	},
	"a record without end": func(g *forger, k lua.Keys, _ string) error {
		return g.rdb.Persist(faultCtx, k.Record()).Err()
	},
	"a record that is a string": func(g *forger, k lua.Keys, _ string) error {
		return g.rdb.Set(faultCtx, k.Record(), "x", 0).Err()
	},
	"a record that is gone": func(g *forger, k lua.Keys, _ string) error {
		return g.rdb.Del(faultCtx, k.Record()).Err()
	},
	"a token that is no number": func(g *forger, k lua.Keys, _ string) error {
		return errors.Join(g.rdb.Set(faultCtx, k.Token(), "x", 0).Err(), g.rdb.HSet(faultCtx, k.Record(), "token", "x").Err())
	},
	"a line that is a string": func(g *forger, k lua.Keys, _ string) error {
		return g.rdb.Set(faultCtx, k.Queue(), "x", 0).Err()
	},
	"fields of somebody's": func(g *forger, k lua.Keys, _ string) error {
		return g.rdb.HSet(faultCtx, k.Record(), "a:b", "c", ":", ":", "\x1b", "").Err()
	},
}

func TestADamagedKeyCostsItsLockAndNoOther(t *testing.T) {
	tests := make(map[string]func(*testing.T))
	for what, damage := range damages {
		tests[what] = func(t *testing.T) {
			f := newFaulty(t)
			g := &forger{&target{faulty: f}, f.may("~fairlock:*:{mine}", onlyKeys), f.keys("mine")}
			u := f.beside(fairlock.WithLease(calmLease))
			before, mine, after := u.locks("a"), u.locks("mine"), u.locks("z")
			f.ends(mine)
			f.must(damage(g, g.mine, f.holding("mine")))
			f.othersAreKept(before, after)
			f.unlocks(before)
			f.unlocks(after)
			_ = mine.Unlock(faultCtx) // which may fail
			f.loses()
		}
	}
	together(t, tests)
}

// othersAreKept fails unless these are renewed for longer than their leases.
func (f *faulty) othersAreKept(leases ...*fairlock.Lease) {
	f.Helper()
	end := time.Now().Add(2 * calmLease)
	for _, lease := range leases {
		f.until("it is renewed", func() bool { return lease.Err() != nil || lease.Deadline().After(end) })
		f.keeps(lease)
	}
}

func TestALockWhoseKeysMayNotBeTouchedAnyMoreCostsItsProcessNoOther(t *testing.T) {
	f := newFaulty(t)
	as := f.as("~*", "&*", "+@all")
	u := f.user(as, fairlock.WithLease(calmLease))
	before, mine, after := u.locks("a"), u.locks("mine"), u.locks("z")
	f.must(f.direct.Do(faultCtx, "ACL", "SETUSER", as.Username, "resetkeys", "~fairlock:*:{[az]}").Err())
	f.othersAreKept(before, after)
	f.ends(mine)
	<-mine.Done()
	if !errors.Is(mine.Err(), fairlock.ErrLost) {
		f.Errorf("what may not be touched: %v", mine.Err())
	}
	f.unlocks(before)
	f.unlocks(after)
	_ = mine.Unlock(faultCtx)
}

func TestATokenThatCannotGrowAnyMoreIsRefused(t *testing.T) {
	f := newFaulty(t)
	f.must(f.direct.Set(faultCtx, f.keys("mine").Token(), int64(hugeToken), time.Minute).Err())
	u := f.beside()
	tokens := map[int64]bool{}
	for range 3 {
		lease, err := u.TryLock(faultCtx, "mine")
		if err != nil {
			continue
		}
		if tokens[lease.Token()] {
			f.Errorf("token %d was given twice", lease.Token())
		}
		tokens[lease.Token()] = true
		f.must(lease.Unlock(faultCtx))
	}
	f.unlocks(u.locks("x"))
}
