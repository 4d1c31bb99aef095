package security

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/world"
)

// forger may touch the keys of the lock "mine", and publish nothing. Messages about that lock come
// from its users.
type forger struct {
	*target
	rdb  *redis.Client
	mine lua.Keys
}

func (f *faulty) forged() *forger {
	f.Helper()
	return &forger{f.targeted(), f.may("~fairlock:*:{mine}", onlyKeys, "resetchannels"), f.Keys("mine")}
}

// line puts a ticket first in line.
func (g *forger) line(ticket string) {
	g.Helper()
	g.Must(g.rdb.LPush(background, g.mine.Queue(), "1:"+ticket).Err())
	g.Must(g.rdb.ZAdd(background, g.mine.Waiters(), redis.Z{Score: float64(g.serverMillis() + 15000), Member: ticket}).Err())
}

// hold puts a ticket's hold into the record.
func (g *forger) hold(ticket string, more ...any) {
	g.Helper()
	fields := append([]any{ticket, fmt.Sprintf("%d:1", g.serverMillis()+30000)}, more...)
	g.Must(g.rdb.HSet(background, g.mine.Record(), fields...).Err())
}

// forging are the ways to have others publish a message.
var forging = map[string]func(g *forger){
	"a release tells the next in line that it is granted": func(g *forger) {
		lease := g.other.Locks("mine")
		g.line(g.waits)
		g.Unlocks(lease)
	},
	"a release tells one whose ticket says where its message ends": func(g *forger) {
		lease := g.other.Locks("mine")
		g.line(g.waits + " " + g.Keys("bank").Record())
		g.Unlocks(lease)
	},
	"a release of its own is answered with a grant to another ticket": func(g *forger) {
		lease := g.user.Locks("mine")
		g.line(g.waits)
		g.Unlocks(lease)
	},
	"what was granted while it was not heard is told when it asks": func(g *forger) {
		lease := g.other.Locks("mine")
		g.hold(g.waits)
		blind := redis.Z{Score: -float64(g.serverMillis() + 60000), Member: "~" + g.client()}
		g.Must(g.rdb.ZAdd(background, g.mine.Waiters(), blind).Err())
		ctx, cancel := context.WithCancel(background)
		w := g.user.Asks(ctx, "mine")
		w.InLine(1)
		cancel()
		_ = w.Fails()
		g.Ends(lease)
	},
	"a force tells who holds": func(g *forger) {
		lease := g.other.Locks("mine")
		g.Ends(lease)
		g.hold(g.holds, "token", g.held.Token())
		g.Must(g.other.ForceUnlock(background, "mine"))
	},
	"a force tells one that it will have lost what it has yet to get": func(g *forger) {
		lease := g.other.Locks("mine")
		g.Ends(lease)
		g.hold(g.waits, "token", g.bank.Token()+1e12)
		g.Must(g.other.ForceUnlock(background, "mine"))
	},
	"an eviction tells who waits": func(g *forger) {
		lease := g.other.Locks("mine")
		g.Ends(lease)
		g.line(g.waits)
		ticket, err := lua.ParseTicket(g.waits)
		g.Must(err)
		g.Must(g.other.Interface.(*fairlock.Locker).Evict(background, "mine", ticket.ID()))
	},
}

func TestWhoMayTouchOneLocksKeysGivesNoOtherLockAwayAndEndsNoOther(t *testing.T) {
	tests := make(map[string]func(*testing.T))
	for what, forges := range forging {
		tests[what] = func(t *testing.T) {
			g := newFaulty(t).forged()
			g.forbids("touching the other lock", g.rdb.Del(background, g.Keys("bank").Record()).Err())
			forges(g)
			g.undisturbed(what)
			g.goesOn()
			g.Must(g.rdb.Del(background, g.mine.Record(), g.mine.Queue(), g.mine.Waiters(), g.mine.Token()).Err())
		}
	}
	world.Together(t, tests)
}

// damages are what somebody may write into the keys of a lock that is held.
var damages = map[string]func(g *forger, k lua.Keys, ticket string) error{
	"a hold that ends at no time": func(g *forger, k lua.Keys, ticket string) error {
		return g.rdb.HSet(background, k.Record(), ticket, "soon").Err()
	},
	"a hold that is empty": func(g *forger, k lua.Keys, ticket string) error {
		return g.rdb.HSet(background, k.Record(), ticket, "").Err()
	},
	"a hold without end": func(g *forger, k lua.Keys, ticket string) error {
		return g.rdb.HSet(background, k.Record(), ticket, "99999999999999999999999999:1").Err()
	},
	"a lease that is no number": func(g *forger, k lua.Keys, _ string) error {
		return g.rdb.HSet(background, k.Record(), "lease", "long").Err()
	},
	"a lease without end": func(g *forger, k lua.Keys, _ string) error {
		return g.rdb.HSet(background, k.Record(), "lease", "1e300").Err()
	},
	"a record without end": func(g *forger, k lua.Keys, _ string) error {
		return g.rdb.Persist(background, k.Record()).Err()
	},
	"a record that is a string": func(g *forger, k lua.Keys, _ string) error {
		return g.rdb.Set(background, k.Record(), "x", 0).Err()
	},
	"a record that is gone": func(g *forger, k lua.Keys, _ string) error {
		return g.rdb.Del(background, k.Record()).Err()
	},
	"a token that is no number": func(g *forger, k lua.Keys, _ string) error {
		return errors.Join(g.rdb.Set(background, k.Token(), "x", 0).Err(), g.rdb.HSet(background, k.Record(), "token", "x").Err())
	},
	"a line that is a string": func(g *forger, k lua.Keys, _ string) error {
		return g.rdb.Set(background, k.Queue(), "x", 0).Err()
	},
	"fields of somebody's": func(g *forger, k lua.Keys, _ string) error {
		return g.rdb.HSet(background, k.Record(), "a:b", "c", ":", ":", "\x1b", "").Err()
	},
}

func TestADamagedKeyCostsItsLockAndNoOther(t *testing.T) {
	tests := make(map[string]func(*testing.T))
	for what, damage := range damages {
		tests[what] = func(t *testing.T) {
			f := newFaulty(t)
			g := &forger{&target{faulty: f}, f.may("~fairlock:*:{mine}", onlyKeys), f.Keys("mine")}
			u := f.Beside(fairlock.WithLease(world.CalmLease))
			before, mine, after := u.Locks("a"), u.Locks("mine"), u.Locks("z")
			f.Ends(mine)
			f.Must(damage(g, g.mine, f.holding("mine")))
			f.othersAreKept(before, after)
			f.Unlocks(before)
			f.Unlocks(after)
			_ = mine.Unlock(background) // this may fail
			f.Loses()
		}
	}
	world.Together(t, tests)
}

// othersAreKept fails unless these leases are renewed for longer than their length.
func (f *faulty) othersAreKept(leases ...*fairlock.Lease) {
	f.Helper()
	end := time.Now().Add(2 * world.CalmLease)
	for _, lease := range leases {
		f.Until("it is renewed", func() bool { return lease.Err() != nil || lease.Deadline().After(end) })
		f.Keeps(lease)
	}
}

func TestALockWhoseKeysMayNotBeTouchedAnyMoreCostsItsProcessNoOther(t *testing.T) {
	f := newFaulty(t)
	as := f.as("~*", "&*", "+@all")
	u := f.User(as, fairlock.WithLease(world.CalmLease))
	before, mine, after := u.Locks("a"), u.Locks("mine"), u.Locks("z")
	f.Must(f.Direct.Do(background, "ACL", "SETUSER", as.Username, "resetkeys", "~fairlock:*:{[az]}").Err())
	f.othersAreKept(before, after)
	f.Ends(mine)
	<-mine.Done()
	if !errors.Is(mine.Err(), fairlock.ErrLost) {
		f.Errorf("what may not be touched: %v", mine.Err())
	}
	f.Unlocks(before)
	f.Unlocks(after)
	_ = mine.Unlock(background)
}

func TestATokenThatCannotGrowAnyMoreIsRefused(t *testing.T) {
	f := newFaulty(t)
	f.Must(f.Direct.Set(background, f.Keys("mine").Token(), int64(hugeToken), time.Minute).Err())
	u := f.Beside()
	tokens := map[int64]bool{}
	for range 3 {
		lease, err := u.TryLock(background, "mine")
		if err != nil {
			continue
		}
		if tokens[lease.Token()] {
			f.Errorf("token %d was given twice", lease.Token())
		}
		tokens[lease.Token()] = true
		f.Must(lease.Unlock(background))
	}
	f.Unlocks(u.Locks("x"))
}
