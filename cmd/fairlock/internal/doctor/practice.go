package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/fairlock"
)

const (
	practiceLease  = 10 * time.Second
	practiceWithin = 10 * time.Second
	slowHandover   = 500 * time.Millisecond // and the median of round trips: by message it takes far less, by asking a second
)

// practice takes, waits for, hands over and forces a lock, and evicts from its line: what
// applications do.
func (p *patient) practice(ctx context.Context) finding {
	ctx, cancel := context.WithTimeout(ctx, practiceWithin)
	defer cancel()
	d := &drill{ctx: ctx, name: "fairlock-doctor-" + strings.ToLower(rand.Text()[:8])}
	quiet := slog.New(slog.DiscardHandler)
	d.holder = locks.New(p.rdb, p.kind, p.app, quiet)
	defer d.holder.Close()
	d.waiter = locks.New(p.rdb, p.kind, p.app, quiet)
	defer d.waiter.Close()
	took, err := d.play()
	if err != nil {
		return finding{Status: wrong, Found: err.Error(), Do: p.remedy(err)}
	}
	f := finding{
		Status: good, Found: "a lock was taken, waited for, handed over in " + output.Milliseconds(took) + ", and forced",
		Figures: map[string]int64{"handover_us": took.Microseconds()},
	}
	if took > slowHandover {
		f.Status = wrong
		f.Do = "messages do not come through: allow SUBSCRIBE, PUBLISH and PUBSUB NUMSUB on " + p.prefix + ":*, and connect without a proxy that does not pass them on"
	}
	return f
}

// drill is what practice does.
type drill struct {
	ctx            context.Context
	name           string
	holder, waiter fairlock.Interface
}

// play returns how long the second hand-over took: with the first the waiter's subscription is
// made.
func (d *drill) play() (took time.Duration, err error) {
	for range 2 {
		if took, err = d.handOver(); err != nil {
			return 0, err
		}
	}
	if line, ok := d.holder.(*fairlock.Locker); ok {
		if err := d.evict(line); err != nil {
			return 0, err
		}
	}
	return took, d.force()
}

// handOver has the holder unlock while the waiter waits.
func (d *drill) handOver() (time.Duration, error) {
	lease, wait, err := d.meet()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := lease.Unlock(d.ctx); err != nil {
		return 0, err
	}
	got := <-wait
	if got.err != nil {
		return 0, got.err
	}
	return got.at.Sub(began), got.lease.Unlock(d.ctx)
}

// evict takes the waiter out of the line.
func (d *drill) evict(line *fairlock.Locker) error {
	lease, wait, err := d.meet()
	if err != nil {
		return err
	}
	defer func() { _ = lease.Unlock(d.ctx) }() // what went wrong is told already
	state, err := line.Inspect(d.ctx, d.name)
	if err != nil {
		return err
	}
	if len(state.Waiters) == 0 {
		return errors.New("somebody else ended the waiting")
	}
	if err := line.Evict(d.ctx, d.name, state.Waiters[0].ID); err != nil {
		return err
	}
	if got := <-wait; !errors.Is(got.err, fairlock.ErrEvicted) {
		return fmt.Errorf("the waiter was evicted and told %w", got.err)
	}
	return nil
}

// force ends an ownership.
func (d *drill) force() error {
	lease, err := d.waiter.Lock(d.ctx, d.name)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Unlock(d.ctx) }()
	if err := d.holder.ForceUnlock(d.ctx, d.name); err != nil {
		return err
	}
	select {
	case <-lease.Done():
		return nil
	case <-d.ctx.Done():
		return fmt.Errorf("the holder was not told that its lock was forced: %w", d.ctx.Err())
	}
}

// granted is how a wait has ended.
type granted struct {
	lease *fairlock.Lease
	at    time.Time
	err   error
}

// meet returns when the holder has the lock and the waiter waits for it, or, for a plain one, is
// about to.
func (d *drill) meet() (*fairlock.Lease, <-chan granted, error) {
	lease, err := d.holder.Lock(d.ctx, d.name, fairlock.Note("fairlock doctor"), fairlock.LeaseFor(practiceLease))
	if err != nil {
		return nil, nil, err
	}
	queued, wait := make(chan struct{}, 1), make(chan granted, 1)
	waits := fairlock.OnQueued(func(int) {
		select {
		case queued <- struct{}{}:
		default: // told before
		}
	})
	go func() {
		lease, err := d.waiter.Lock(d.ctx, d.name, waits, fairlock.Note("fairlock doctor"))
		wait <- granted{lease, time.Now(), err}
	}()
	select {
	case <-queued:
		return lease, wait, nil
	case got := <-wait:
		if got.err == nil {
			got.err = errors.New("two had one lock")
		}
		return nil, nil, got.err
	}
}
