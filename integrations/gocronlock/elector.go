package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/leader"
)

// ErrNotLeader says that another instance leads, or none.
var ErrNotLeader = errors.New("gocronlock: this instance does not lead")

// Elector is a gocron.Elector: one instance leads, and runs all jobs, and the others wait in line
// to follow it. It is safe for concurrent use.
type Elector struct {
	stop  context.CancelFunc
	over  chan struct{} // closed when the instance stands no more
	ready chan struct{} // closed when it leads, waits in line or stands no more
	hooks string        // the goroutine in which the hooks run

	mu    sync.Mutex // guards what follows
	lease *fairlock.Lease
	err   error // why it stands no more
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns an Elector for gocron.WithDistributedElector. Its instance stands for election
// from now on, as [leader.Run] does, until Close. All Electors with the same name, and Lockers of
// the same kind and prefix, elect one of them. Of the options of the lock, fairlock.OnQueued is
// taken. An error says what makes no sense, and is a [fairlock.ErrInvalid].
func NewElector(locker fairlock.Interface, name string, options ...leader.Option) (*Elector, error) {
	ctx, stop := context.WithCancel(context.Background())
	e := &Elector{stop: stop, over: make(chan struct{}), ready: make(chan struct{})}
	ready := sync.OnceFunc(func() { close(e.ready) })
	options = append(slices.Clip(options), leader.WithLock(fairlock.OnQueued(func(int) { ready() })))
	lead := func(ctx context.Context, lease *fairlock.Lease) error {
		e.leads(lease)
		defer e.leads(nil)
		ready()
		<-ctx.Done()
		return nil
	}
	if err := check(func(ended context.Context) error { return leader.Run(ended, locker, name, lead, options...) }); err != nil {
		stop()
		return nil, err
	}
	began := make(chan struct{})
	go func() {
		defer close(e.over)
		defer ready() // or who waits for that would wait for ever
		e.hooks = goroutine()
		close(began)
		err := leader.Run(ctx, locker, name, lead, options...)
		if ctx.Err() == nil { // gocron drops the error of IsLeader
			slog.Error("gocronlock: this instance stands for election no more, and runs no job", "name", name, "error", err) //nolint:sloglint // gocron gives an Elector no logger
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.err = err
	}()
	<-began
	return e, nil
}

func (e *Elector) leads(lease *fairlock.Lease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lease = lease
}

// IsLeader returns nil if this instance leads, and else an [ErrNotLeader]. gocron calls it when a
// job is due, and skips the run on an error. No request is sent.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	lease, err := e.lease, e.err
	e.mu.Unlock()
	if lease != nil {
		err = lease.Err()
		if err == nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	return ErrNotLeader
}

// Lease returns the Lease under which this instance leads, or nil, which holds nothing. A job that
// runs for longer than a moment works under [WithLease], or it goes on when another instance leads.
func (e *Elector) Lease() *fairlock.Lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lease
}

// Ready returns a channel that is closed once this instance leads, or waits in line, or stands no
// more. Start the scheduler after that: while nobody leads yet, jobs that start immediately are
// skipped everywhere. While the Redis is away the channel stays open, so that a start that waits
// for nothing else stands still for as long.
func (e *Elector) Ready() <-chan struct{} { return e.ready }

// Close resigns, so that the next in line leads at once, and returns when that is done. Shut down
// the scheduler first: a job that still runs is not waited for. (Jobs that are due until Close are
// skipped. If that costs more than a job that is broken off, close first, and have all jobs work
// under [WithLease].)
//
// In a hook, leader.OnElected or leader.OnLost, Close returns at once: the instance resigns when
// the hook has returned.
func (e *Elector) Close() error {
	e.stop()
	if goroutine() != e.hooks {
		<-e.over
	}
	return nil
}

// goroutine returns what the runtime calls the running goroutine, as in the first line of a panic.
func goroutine() string {
	var buffer [64]byte
	line := strings.Fields(string(buffer[:runtime.Stack(buffer[:], false)]))
	return line[1] // after "goroutine"; what follows is not always the same
}

// check returns what makes no sense about a call. With a context that has ended, the call sends
// nothing.
func check(call func(context.Context) error) error {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := call(ended); errors.Is(err, fairlock.ErrInvalid) {
		return fmt.Errorf("gocronlock: %w", err)
	}
	return nil
}
