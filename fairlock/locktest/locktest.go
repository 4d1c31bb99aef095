// Package locktest is for the tests of code that takes locks. [New] makes a Locker on an embedded
// server of the test's own, in one line, and gives control over what is hard to provoke:
//
//	func TestWithoutItsLockNothingIsPaid(t *testing.T) {
//		locks := locktest.New(t)
//		shop := Shop{Locks: locks, Bank: func(ctx context.Context, token int64) error {
//			locks.ForceUnlock(t.Context(), "order:42") // the lock is lost midway, and ctx ends
//			<-ctx.Done()
//			return context.Cause(ctx)
//		}}
//		if err := shop.Pay(t.Context(), "order:42"); !errors.Is(err, fairlock.ErrLost) {
//			t.Errorf("got %v", err)
//		}
//	}
//
// What is there, and how to bring it about:
//
//	a lock is lost            Lose(lease); without the Lease: ForceUnlock(ctx, name)
//	somebody else has it      HoldElsewhere(name)
//	others are in line        QueueElsewhere(name, n)
//	a call is in line now     AwaitWaiters(name, n); WaitersOf(name) shows who
//	the server is away        Server.Pause, Server.Stop, Server.Resume
//	all data are gone         Server.Client().FlushAll(ctx)
//	time passes               testing/synctest: call New inside the bubble, then time.Sleep
//
// No sockets are used, so all of it works in the fake time of [testing/synctest]: there a lease of
// 30 s ends at once, and [synctest.Wait] returns when each call has its lock or waits for it.
//
// Everything ends with the test: calls that still wait return ErrClosed, and no goroutine is left.
// Tests may run in parallel. A control that cannot do what it says fails the test with Fatal; so
// the controls of [Locks] are for the goroutine of the test. Those of [Server] are for any.
package locktest

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/reentrant"
)

// Locks is the Locker of the process under test, on a server of the test's own, with control over
// what happens to its locks.
type Locks struct {
	*fairlock.Locker
	Server *Server // on which all Lockers of the test are

	tb       testing.TB
	options  []fairlock.Option // of Lockers elsewhere, before their own
	stranger *fairlock.Locker  // another process
	plain    *reentrant.Locker // and its plain locks
	calls    sync.WaitGroup    // of QueueElsewhere
	mu       sync.Mutex        // guards what follows
	lockers  []fairlock.Interface
	held     []*fairlock.Lease // or a Lease that the test drops would not be renewed
}

// New starts a server and returns a Locker on it, with these options. Both end with the test. The
// Locker logs to the test's output, unless it has a logger.
func New(tb testing.TB, options ...fairlock.Option) *Locks {
	tb.Helper()
	l := &Locks{Server: start(tb), tb: tb}
	logger := fairlock.WithLogger(slog.New(slog.NewTextHandler(tb.Output(), nil)))
	own := slices.Concat([]fairlock.Option{logger}, options)
	l.options = slices.Concat(own, []fairlock.Option{logger, fairlock.WithObserver(nobody{})})
	l.Locker = fairlock.New(l.Server.Client(), own...)
	others := l.with([]fairlock.Option{fairlock.WithIdentity(fairlock.ByContext)}) // a test holds all in one goroutine
	l.stranger = fairlock.New(l.Server.Client(), others...)
	l.plain = reentrant.New(l.Server.Client(), others...)
	l.lockers = []fairlock.Interface{l.Locker, l.stranger, l.plain}
	tb.Cleanup(l.end)
	return l
}

// nobody is told what happens elsewhere.
type nobody struct{}

func (nobody) Observe(fairlock.Event) {}

// end ends everything. The server is there again first, or Close would wait for it.
func (l *Locks) end() {
	l.Server.Resume()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, locker := range l.lockers {
		_ = locker.Close()
	}
	l.calls.Wait()
	l.Server.end()
}

// Elsewhere returns a Locker as another process has it: on the same server, with a client of its
// own. It has the options that New was given, except for the observer and the logger, and then
// these.
func (l *Locks) Elsewhere(options ...fairlock.Option) *fairlock.Locker {
	locker := fairlock.New(l.Server.Client(), l.with(options)...)
	l.closes(locker)
	return locker
}

// Reentrant returns a Locker for plain locks on the same server, with options as Elsewhere has
// them. Each call returns one of another process. Plain locks have no line on the server: to wait
// until a call waits for one, use synctest.Wait.
func (l *Locks) Reentrant(options ...reentrant.Option) *reentrant.Locker {
	locker := reentrant.New(l.Server.Client(), l.with(options)...)
	l.closes(locker)
	return locker
}

func (l *Locks) with(options []fairlock.Option) []fairlock.Option {
	return slices.Concat(l.options, options)
}

func (l *Locks) closes(locker fairlock.Interface) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lockers = append(l.lockers, locker)
}

// patience bounds what a control waits for. Only a bug reaches it.
const patience = 30 * time.Second

// within returns a context for a control that asks the server. It fails if the server is away.
func (l *Locks) within(control string) (context.Context, context.CancelFunc) {
	l.tb.Helper()
	if now := l.Server.network.now(); now != serving {
		l.tb.Fatalf("locktest: %s: the server is %s; call Server.Resume first", control, now)
	}
	return context.WithTimeout(context.Background(), patience)
}
