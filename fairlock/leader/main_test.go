package leader_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/leader"
	"github.com/fairlock/locks/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// journal is what happened to all instances, in order.
type journal struct {
	mu     sync.Mutex
	lines  []string
	leads  int // instances inside their function now
	most   int // the most of them at one time
	tokens []int64
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
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
	return slices.Clone(j.lines)
}

// until returns when the journal has n lines, and returns them.
func (j *journal) until(t *testing.T, n int) []string {
	t.Helper()
	world.Until(t, fmt.Sprintf("%d things have happened", n), func() bool { return len(j.all()) >= n })
	return j.all()
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
	world.Next(t, stands)
	return i
}

// end returns what the call returned.
func (i *instance) end(t *testing.T) error {
	t.Helper()
	return world.Next(t, i.ends)
}
