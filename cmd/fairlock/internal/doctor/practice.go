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
	"github.com/fairlock/locks/lua"
)

const (
	practiceLease  = 10 * time.Second
	practiceWithin = 10 * time.Second
	slowHandover   = 500 * time.Millisecond // by message a hand-over takes two round trips, by asking a second
)

// practice does what applications do: it takes a lock, waits for it, hands it over, forces it, and
// evicts a waiter from its line.
func (p *patient) practice(ctx context.Context) finding {
	name, ok := p.practiceLock(ctx)
	if !ok {
		return finding{Status: note, Found: "no lock was tried: no name was found whose lock would be here", Do: "look at CLUSTER SHARDS: does it serve slots?"}
	}
	rdb, quiet := p.rdb, slog.New(slog.DiscardHandler)
	if p.whole != nil {
		rdb = p.whole // as applications do
	}
	return p.practiceWith(ctx, name, practiceLease, locks.New(rdb, p.kind, p.app, quiet), locks.New(rdb, p.kind, p.app, quiet))
}

// manyNames find a lock at a master that has a thousandth of the slots, but for bad luck.
const manyNames = 10_000

// practiceLock returns the name of a lock that nobody else uses: of a master of a cluster, one that
// is kept there.
func (p *patient) practiceLock(ctx context.Context) (string, bool) {
	for range manyNames {
		name := "fairlock-doctor-" + strings.ToLower(rand.Text()[:8])
		if p.whole == nil {
			return name, true
		}
		if master, err := p.whole.MasterForKey(ctx, "{"+name+"}"); err == nil && master.Options().Addr == p.node {
			return name, true
		}
	}
	return "", false
}

// practiceWith practises with two Lockers, and closes them. The holder has leases of that length.
func (p *patient) practiceWith(ctx context.Context, name string, lease time.Duration, holder, waiter fairlock.Interface) finding {
	defer holder.Close()
	defer waiter.Close()
	ctx, cancel := context.WithTimeout(ctx, practiceWithin)
	defer cancel()
	d := &drill{ctx: ctx, name: name, lease: lease, holder: holder, waiter: waiter}
	took, err := d.play()
	if err != nil {
		return finding{Status: wrong, Found: lua.Redacted(err.Error()), Do: p.remedy(err)}
	}
	f := finding{
		Status: good, Found: "a lock was taken, waited for, handed over in " + output.Milliseconds(took) + ", and forced",
		Figures: map[string]int64{"handover_us": took.Microseconds()},
	}
	if took > slowHandover && took > slowHandover+2*p.roundTrip(ctx) {
		f.Status = wrong
		f.Do = "messages do not come through: allow SUBSCRIBE, PUBLISH and PUBSUB NUMSUB on " + p.prefix + ":*, and connect without a proxy that does not pass them on"
	}
	return f
}

// drill is one run of practice.
type drill struct {
	ctx            context.Context
	name           string
	lease          time.Duration
	holder, waiter fairlock.Interface
}

// play returns how long a hand-over took after the first, which also makes the waiter's
// subscription. If messages do not come through, each is late; on a busy machine one or two may be.
func (d *drill) play() (took time.Duration, err error) {
	for i := range 4 {
		if took, err = d.handOver(); err != nil {
			return 0, err
		}
		if i > 0 && took <= slowHandover {
			break
		}
	}
	if line, ok := d.holder.(locks.Evicter); ok {
		if err := d.evict(line); err != nil {
			return 0, err
		}
	}
	return took, d.force()
}

// handOver lets the holder unlock while the waiter waits.
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

// evict evicts the waiter from the line.
func (d *drill) evict(line locks.Evicter) error {
	lease, wait, err := d.meet()
	if err != nil {
		return err
	}
	defer func() { _ = lease.Unlock(d.ctx) }() // an error was reported already
	state, err := d.holder.Inspect(d.ctx, d.name)
	if err != nil {
		return err
	}
	if len(state.Waiters) == 0 {
		return errors.New("somebody else ended the waiting")
	}
	if err := line.Evict(d.ctx, d.name, state.Waiters[0].ID); err != nil {
		return err
	}
	switch got := <-wait; {
	case got.err == nil:
		_ = got.lease.Unlock(d.ctx)
		return errors.New("the waiter was evicted, was not told, and had the lock when that was free")
	case !errors.Is(got.err, fairlock.ErrEvicted):
		return fmt.Errorf("the waiter was evicted and told %w", got.err)
	}
	return nil
}

// force forces the end of a hold.
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

// granted is the result of a wait.
type granted struct {
	lease *fairlock.Lease
	at    time.Time
	err   error
}

// meet returns when the holder has the lock and the waiter waits for it. For a plain lock it
// returns when the waiter is about to wait.
func (d *drill) meet() (*fairlock.Lease, <-chan granted, error) {
	lease, err := d.holder.Lock(d.ctx, d.name, fairlock.Note("fairlock doctor"), fairlock.LeaseFor(d.lease))
	if err != nil {
		return nil, nil, err
	}
	queued, wait := make(chan struct{}, 1), make(chan granted, 1)
	waits := fairlock.OnQueued(func(int) {
		select {
		case queued <- struct{}{}:
		default: // a plain lock told that before
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
