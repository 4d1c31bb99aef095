package faketime

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/conformance"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// lossy is a server in fake time that loses its data, with Lockers of either kind.
type lossy struct {
	*bubble
	kind world.Kind
}

func ofBothKinds(t *testing.T, test func(s lossy)) {
	for name, kind := range map[string]world.Kind{"fair": world.Fair, "plain": world.Plain} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(b *bubble) { test(lossy{b, kind}) })
		})
	}
}

func (s lossy) client(options ...fairlock.Option) (conformance.Locker, *network) {
	return onNetwork(s, s.mini, s.kind, options...)
}

func (s lossy) lock(l conformance.Locker, options ...fairlock.LockOption) *fairlock.Lease {
	s.Helper()
	lease, err := l.Lock(context.Background(), "x", options...)
	if err != nil {
		s.Fatal(err)
	}
	return lease
}

// tries fails unless the lock is held, and returns the holder.
func (s lossy) tries(l conformance.Locker) (holder string) {
	s.Helper()
	var held *fairlock.HeldError
	if _, err := l.TryLock(s.Context(), "x"); !errors.As(err, &held) {
		s.Fatalf("got %v", err)
	}
	return held.Owner
}

func TestAHolderKeepsItsLockThoughAllPooledConnectionsDieUnnoticed(t *testing.T) {
	ofBothKinds(t, func(s lossy) {
		n := &network{mini: s.mini}
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: n.dial, PoolSize: enough})
		l := s.kind(rdb, fairlock.WithLogger(slog.New(slog.DiscardHandler)))
		s.Cleanup(func() {
			_, _ = l.Close(), rdb.Close() // they never fail
			n.cut()
		})
		lease := s.lock(l)
		redistest.FillPool(s, rdb, 20)
		n.forgets()
		time.Sleep(2 * time.Minute)
		if err := lease.Err(); err != nil {
			s.Error(err)
		}
		redistest.FillPool(s, rdb, 20)
		n.forgets()
		_ = lease.Unlock(context.Background()) // it may go unanswered
		other, _ := s.client()
		began := time.Now()
		s.lock(other)
		if took := time.Since(began); took > 10*time.Second { // its lease would end after twenty or more
			s.Errorf("the lock was given back after %v", took)
		}
	})
}

// The first call after the loss has a short lease of its own, and its client knows of the holder's
// only from a failed TryLock.
func TestAfterALossOfDataTheLockIsKeptForTheLongestLeaseThatWasSeen(t *testing.T) {
	ofBothKinds(t, func(s lossy) {
		a, network := s.client(fairlock.WithLease(time.Minute))
		c, _ := s.client(fairlock.WithLease(2 * time.Second))
		lease := s.lock(a)
		s.tries(c)
		network.stop() // the server no longer hears from the holder
		s.mini.FlushAll()
		next := s.lock(c)
		if err := lease.Err(); !errors.Is(err, fairlock.ErrLost) {
			s.Errorf("the next one has it, and the holder says %v", err)
		}
		s.unlock(next)
	})
}

// The holder's next renewal is twenty seconds away, and a fixed lease has none.
func TestAfterALossOfDataTheHolderIsBackAsSoonAsAWaiterOfItsProcessAsks(t *testing.T) {
	for what, options := range map[string][]fairlock.LockOption{"renewed": nil, "fixed": {fairlock.LeaseFor(time.Minute)}} {
		t.Run(what, func(t *testing.T) {
			ofBothKinds(t, func(s lossy) {
				a, _ := s.client(fairlock.WithLease(time.Minute))
				c, _ := s.client()
				lease := s.lock(a, options...)
				waits := make(chan *fairlock.Lease)
				go func() { waits <- s.lock(a) }()
				synctest.Wait()
				s.mini.FlushAll()
				time.Sleep(6 * time.Second)
				if holder := s.tries(c); holder != lease.Owner() {
					s.Errorf("the lock is %q's", holder)
				}
				s.unlock(lease)
				s.unlock(<-waits)
			})
		})
	}
}

func TestAfterALossOfDataAHolderLearnsAsSoonAsAWaiterOfItsProcessAsksThatANewcomerHasTheLock(t *testing.T) {
	ofBothKinds(t, func(s lossy) {
		a, _ := s.client(fairlock.WithLease(time.Minute))
		c, _ := s.client()
		lease := s.lock(a)
		waits := make(chan *fairlock.Lease)
		go func() { waits <- s.lock(a) }()
		synctest.Wait()
		s.mini.FlushAll()
		newcomer := s.lock(c)
		time.Sleep(6 * time.Second)
		if err := lease.Err(); !errors.Is(err, fairlock.ErrLost) {
			s.Errorf("two have it: %v", err)
		}
		if err := newcomer.Err(); err != nil {
			s.Error(err)
		}
		s.unlock(newcomer)
		s.unlock(<-waits)
	})
}

// movesSlot refuses scripts with several keys, as a cluster does while their slot moves.
func movesSlot(p *server.Peer, command string, args ...string) bool {
	refused := command == "EVALSHA" && args[1] != "1"
	if refused {
		p.WriteError("TRYAGAIN Multiple keys request during rehashing of slot")
	}
	return refused
}

func TestALockIsKeptAlthoughItCannotBeAssertedAgain(t *testing.T) {
	ofBothKinds(t, func(s lossy) {
		a, _ := s.client()
		lease := s.lock(a)
		s.mini.Server().SetPreHook(movesSlot)
		time.Sleep(10 * time.Minute)
		if err := lease.Err(); err != nil {
			t.Fatal(err)
		}
		if err := lease.Extend(context.Background(), time.Minute); err != nil {
			t.Fatal(err)
		}
		s.mini.Server().SetPreHook(nil)
		if err := lease.Unlock(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// Who was refused remembers the token. The server refuses at first to keep it for longer.
func TestALockThatWasHeldLongByAnExtendIsFreeWhenItIsUnlocked(t *testing.T) {
	ofBothKinds(t, func(s lossy) {
		a, _ := s.client()
		b, _ := s.client()
		lease := s.lock(a, fairlock.LeaseFor(time.Minute))
		time.Sleep(30 * time.Second)
		s.mini.Server().SetPreHook(movesSlot)
		if err := lease.Extend(context.Background(), 30*time.Minute); err != nil {
			t.Fatal(err)
		}
		s.mini.Server().SetPreHook(nil)
		time.Sleep(lua.TokenTTL + 2*time.Minute - 35*time.Second) // the first lease's, less 5 s
		s.tries(b)
		time.Sleep(time.Minute)
		if err := lease.Unlock(context.Background()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		free, err := b.TryLock(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		_ = free.Unlock(context.Background())
	})
}

// The holder's renewals ask for half a minute. Its server remembers nothing of the hour.
func TestAfterALossOfDataALockIsKeptForAsLongAsAnExtendIsTrusted(t *testing.T) {
	for what, options := range map[string][]fairlock.LockOption{"renewed": nil, "fixed": {fairlock.LeaseFor(time.Minute)}} {
		t.Run(what, func(t *testing.T) {
			ofBothKinds(t, func(s lossy) {
				a, network := s.client()
				c, _ := s.client()
				lease := s.lock(a, options...)
				if err := lease.Extend(context.Background(), 10*time.Minute); err != nil {
					s.Fatal(err)
				}
				waits := make(chan *fairlock.Lease, 1)
				ctx, cancel := context.WithCancel(context.Background())
				go func() { // a fixed lease is asserted again only if somebody here asks
					next, _ := a.Lock(ctx, "x")
					waits <- next
				}()
				synctest.Wait()
				s.mini.FlushAll()
				time.Sleep(11 * time.Second)
				if holder := s.tries(c); holder != lease.Owner() {
					s.Fatalf("the lock is %q's", holder)
				}
				cancel()
				<-waits
				network.stop()
				next := s.lock(c)
				if err := lease.Err(); !errors.Is(err, fairlock.ErrLost) {
					s.Errorf("the next one has it, and the holder says %v", err)
				}
				s.unlock(next)
			})
		})
	}
}

// A lease that is no longer than the first one may end later.
func TestAfterALossOfDataAFixedLeaseIsKeptForAsLongAsALateExtendIsTrusted(t *testing.T) {
	ofBothKinds(t, func(s lossy) {
		a, _ := s.client()
		c, _ := s.client()
		lease := s.lock(a, fairlock.LeaseFor(time.Minute))
		time.Sleep(50 * time.Second)
		if err := lease.Extend(context.Background(), 45*time.Second); err != nil {
			s.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		waits := make(chan error, 1)
		go func() {
			_, err := a.Lock(ctx, "x")
			waits <- err
		}()
		synctest.Wait()
		s.mini.FlushAll()
		time.Sleep(6 * time.Second)
		cancel()
		if err := <-waits; !errors.Is(err, context.Canceled) {
			s.Error(err)
		}
		time.Sleep(10 * time.Second)
		if holder := s.tries(c); holder != lease.Owner() || lease.Err() != nil {
			s.Errorf("the lock is %q's, and the holder says %v", holder, lease.Err())
		}
		s.unlock(lease)
	})
}
