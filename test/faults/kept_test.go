package faults

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

// A caller is kept only as long as it was promised, whatever its client waits for.

// slack is what a busy machine may add. A read takes 5 s, a wait for the pool 6 s and a dial 5 s.
const slack = 2 * time.Second

// hangs returns a client, and a switch that makes its dials hang, as a firewall does that drops
// packets.
func (f *faulty) hangs(o redis.Options) (rdb *redis.Client, hang *atomic.Bool) {
	hang = new(atomic.Bool)
	o.Addr = f.Addr
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if hang.Load() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	return redis.NewClient(&o), hang
}

// onKept runs a test with several clients, some of which obey contexts.
func onKept(t *testing.T, test func(f *faulty, o redis.Options)) {
	t.Helper()
	tests := make(map[string]func(*testing.T))
	for name, o := range map[string]redis.Options{
		"by its read timeout":             {},
		"obedient":                        {ContextTimeoutEnabled: true},
		"obedient, and without deadlines": {ContextTimeoutEnabled: true, ReadTimeout: -2, WriteTimeout: -2},
		"without timeouts":                {ReadTimeout: -1, WriteTimeout: -1},
		"with a Limiter":                  {Limiter: new(limiter)},
	} {
		tests[name] = func(t *testing.T) { test(newFaulty(t), o) }
		tests[name+", plain"] = func(t *testing.T) { test(newFaulty(t).plain(), o) }
	}
	world.Together(t, tests)
}

func TestUnlockAndWaitAtMostComeBackInTimeThoughDialsHang(t *testing.T) {
	onKept(t, func(f *faulty, o redis.Options) {
		rdb, hang := f.hangs(o)
		u := f.With(rdb)
		lease, holder := u.Locks("x"), f.Beside().Locks("y")
		hang.Store(true)
		f.Must(f.Direct.ClientKillByFilter(background, "TYPE", "normal", "SKIPME", "yes").Err())
		f.Ends(lease)
		f.Within(5*time.Second+slack, "Unlock", func() {
			if err := lease.Unlock(background); !errors.Is(err, context.DeadlineExceeded) {
				f.Errorf("Unlock says %v", err)
			}
		})
		f.Within(2*time.Second+slack, "WaitAtMost", func() {
			if _, err := u.Lock(background, "y", fairlock.WaitAtMost(2*time.Second)); err == nil {
				f.Error("it has the lock")
			}
		})
		f.Within(300*time.Millisecond+slack, "a context's deadline", func() {
			if _, err := u.Lock(fromNow(300*time.Millisecond), "y"); !errors.Is(err, context.DeadlineExceeded) {
				f.Errorf("Lock says %v", err)
			}
		})
		hang.Store(false)
		f.Unlocks(holder)
		f.Until("the lock is given back", func() bool { return f.Holder("x") == 0 && f.Holder("y") == 0 })
		f.nobody("x")
	})
}

// limiter lets all requests pass until it is armed. Then it keeps them until it is opened.
type limiter struct {
	armed atomic.Bool
	open  chan struct{}
}

func (l *limiter) Allow() error {
	if l.armed.Load() {
		<-l.open
	}
	return nil
}

func (*limiter) ReportResult(error) {}

func TestAnUnlockComesBackInTimeThoughALimiterKeepsItsRequest(t *testing.T) {
	test := func(f *faulty, o redis.Options) {
		l := &limiter{open: make(chan struct{})}
		o.Addr, o.Limiter = f.Addr, l
		lease := f.With(redis.NewClient(&o)).Locks("x")
		l.armed.Store(true)
		ended := make(chan error, 1)
		go func() { ended <- lease.Unlock(background) }()
		f.Ends(lease)
		select {
		case err := <-ended:
			if !errors.Is(err, context.DeadlineExceeded) {
				f.Errorf("Unlock says %v", err)
			}
		case <-time.After(5*time.Second + slack):
			f.Error("Unlock waits for the Limiter")
		}
		close(l.open)
		f.endsUpFree("x")
	}
	world.Together(t, map[string]func(*testing.T){
		"by its read timeout": func(t *testing.T) { test(newFaulty(t), redis.Options{}) },
		"obedient":            func(t *testing.T) { test(newFaulty(t), redis.Options{ContextTimeoutEnabled: true}) },
		"plain":               func(t *testing.T) { test(newFaulty(t).plain(), redis.Options{}) },
	})
}

func TestACloseComesBackInTimeThoughALimiterKeepsARequest(t *testing.T) {
	f := newFaulty(t)
	l := &limiter{open: make(chan struct{})}
	// If its leave does not get through, the record ends soon.
	u := f.With(redis.NewClient(&redis.Options{Addr: f.Addr, Limiter: l}), fairlock.WithLease(world.CalmLease))
	lease := u.Locks("x")
	l.armed.Store(true)
	f.Ends(lease)
	unlocked, closed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(unlocked)
		_ = lease.Unlock(background)
	}()
	<-lease.Done()
	go func() {
		defer close(closed)
		_ = u.Close()
	}()
	select {
	case <-closed:
	case <-time.After(2*lua.MostKept + slack):
		t.Error("Close waits for the Limiter")
	}
	close(l.open)
	<-closed
	<-unlocked
}

func TestUnlockAndWaitAtMostComeBackInTimeThoughThePoolIsFull(t *testing.T) {
	onKept(t, func(f *faulty, o redis.Options) {
		o.PoolSize, o.MaxActiveConns = 2, 3 // one is for the subscription
		rdb, _ := f.hangs(o)
		u := f.With(rdb)
		lease, holder := u.Locks("x"), f.Beside().Locks("y")
		release := make(chan struct{})
		for range 2 { // other code has the connections
			taken := make(chan struct{})
			go func() {
				conn := rdb.Conn()
				_ = conn.Ping(background).Err() // which takes a connection from the pool
				close(taken)
				<-release
				_ = conn.Close()
			}()
			<-taken
		}
		f.Ends(lease)
		f.Within(1500*time.Millisecond+slack, "Unlock", func() {
			if err := lease.Unlock(fromNow(1500 * time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
				f.Errorf("Unlock says %v", err)
			}
		})
		f.Within(500*time.Millisecond+slack, "WaitAtMost", func() {
			if _, err := u.Lock(background, "y", fairlock.WaitAtMost(500*time.Millisecond)); err == nil {
				f.Error("it has the lock")
			}
		})
		close(release)
		f.Unlocks(holder)
		f.Until("the lock is given back", func() bool { return f.Holder("x") == 0 && f.Holder("y") == 0 })
		f.nobody("x")
	})
}

func TestALockWithADeadlineComesBackThoughTheServerIsSilentAndTheClientHasNoDeadlines(t *testing.T) {
	onKept(t, func(f *faulty, o redis.Options) {
		rdb, _ := f.hangs(o)
		u := f.With(rdb)
		f.Unlocks(u.Locks("x"))
		f.Server.Pause()
		f.Within(300*time.Millisecond+slack, "Lock", func() {
			if _, err := u.Lock(fromNow(300*time.Millisecond), "x"); !errors.Is(err, context.DeadlineExceeded) {
				f.Errorf("Lock says %v", err)
			}
		})
		f.Server.Resume()
		f.Must(u.Close()) // waits until what is under way is answered and given back
		f.nobody("x")
	})
}

// While the server is not prompt, each request has a goroutine of its own.
func TestARequestThatIsNeverAnsweredKeepsNoCallOfAClientWithoutTimeouts(t *testing.T) {
	test := func(f *faulty) {
		u := f.With(redis.NewClient(&redis.Options{Addr: f.Proxy.Addr(), ReadTimeout: -1, WriteTimeout: -1}))
		f.Unlocks(u.Locks("x"))
		slow := f.Once(f.Verb("enter"), faultproxy.HoldRequest())
		if _, err := u.Lock(background, "x", fairlock.WaitAtMost(200*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
			f.Errorf("Lock says %v", err)
		}
		slow.Release()
		for _, name := range []string{"y", "z"} {
			f.Once(f.Verb("enter", f.Keys(name).Record()), faultproxy.SwallowReplySilently())
		}
		tried := make(chan struct{})
		go func() {
			defer close(tried)
			lease, err := u.TryLock(background, "y")
			switch {
			case err == nil: // it asked again
				f.Unlocks(lease)
			case !errors.Is(err, lua.ErrKept):
				f.Errorf("TryLock says %v", err)
			}
		}()
		f.Within(lua.MostKept+world.Patience, "Lock", func() { f.Unlocks(u.Locks("z")) })
		f.Within(lua.MostKept+world.Patience, "TryLock", func() { <-tried })
		for _, name := range []string{"x", "y", "z"} {
			f.nobody(name)
		}
		f.Proxy.CutAll() // else the swallowed requests would keep Close
		f.Must(u.Close())
	}
	world.Together(t, map[string]func(*testing.T){
		"fair":  func(t *testing.T) { test(newFaulty(t)) },
		"plain": func(t *testing.T) { test(newFaulty(t).plain()) },
	})
}
