package leader_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/embedded"
	"github.com/fairlock/locks/fairlock/leader"
	"github.com/fairlock/locks/test/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable() // servers go away here
	goleak.VerifyTestMain(m)
}

// patience bounds waits for what must happen.
const patience = 30 * time.Second

// briefly is for a leader that has to notice a loss: it asks at each third of the lease.
var briefly = fairlock.WithLease(1500 * time.Millisecond)

// onBoth runs a test on the embedded server and on a real one.
func onBoth(t *testing.T, test func(t *testing.T, addr string)) {
	t.Run("embedded", func(t *testing.T) {
		server, err := embedded.Start()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		test(t, server.Addr())
	})
	t.Run("real", func(t *testing.T) { test(t, redistest.Start(t).Addr()) })
}

// open returns a Locker with a client of its own, as every process has.
func open(t *testing.T, addr string, options ...fairlock.Option) *fairlock.Locker {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	quiet := fairlock.WithLogger(slog.New(slog.DiscardHandler))
	l := fairlock.New(rdb, append([]fairlock.Option{quiet}, options...)...)
	t.Cleanup(func() {
		_ = l.Close()
		_ = rdb.Close()
	})
	return l
}

// journal is what happened to all instances, in order.
type journal struct {
	mu     sync.Mutex
	lines  []string
	leads  int // instances inside their function now
	most   int // the most of them at one time
	tokens []int64
	added  chan struct{} // has room for one: there is something new
}

func newJournal() *journal { return &journal{added: make(chan struct{}, 1)} }

func (j *journal) add(line string) {
	j.mu.Lock()
	j.lines = append(j.lines, line)
	j.mu.Unlock()
	select {
	case j.added <- struct{}{}:
	default:
	}
}

func (j *journal) enter(token int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.leads++
	j.most = max(j.most, j.leads)
	j.tokens = append(j.tokens, token)
}

func (j *journal) leave() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.leads--
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.lines...)
}

// until returns when the journal has n lines, and returns them.
func (j *journal) until(t *testing.T, n int) []string {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		if all := j.all(); len(all) >= n {
			return all
		}
		select {
		case <-j.added:
		case <-limit.C:
			t.Fatalf("after %v there is only %q", patience, j.all())
		}
	}
}

// instance is a call of Run under way.
type instance struct {
	stop context.CancelFunc
	ends chan error
}

// run begins a call of Run whose function leads until its context ends, and then returns result.
// Everything that happens goes into the journal. If the instance cannot lead at once, run returns
// when it waits in line.
func (j *journal) run(t *testing.T, l fairlock.Interface, who string, result error, options ...leader.Option) *instance {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	i := &instance{cancel, make(chan error, 1)}
	stands := make(chan struct{})
	once := sync.OnceFunc(func() { close(stands) })
	options = append([]leader.Option{
		leader.OnElected(func(*fairlock.Lease) { j.add(who + " elected") }),
		leader.OnLost(func(error) { j.add(who + " lost") }),
		leader.WithLogger(slog.New(slog.DiscardHandler)),
		leader.WithLock(fairlock.OnQueued(func(int) { once() })),
	}, options...)
	go func() {
		i.ends <- leader.Run(ctx, l, "active", func(ctx context.Context, lease *fairlock.Lease) error {
			j.enter(lease.Token())
			j.add(who + " leads")
			once()
			<-ctx.Done()
			j.leave()
			j.add(who + " ends")
			return result
		}, options...)
	}()
	t.Cleanup(cancel)
	select {
	case <-stands:
	case <-time.After(patience):
		t.Fatalf("%s neither leads nor waits: %q", who, j.all())
	}
	return i
}

// end returns what the call returned.
func (i *instance) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-i.ends:
		return err
	case <-time.After(patience):
		t.Fatal("Run does not return")
		return nil
	}
}
