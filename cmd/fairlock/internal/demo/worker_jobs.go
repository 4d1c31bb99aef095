package demo

import (
	"context"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// job does one job under a lock.
func (w *worker) job(r request) {
	asked := now()
	lease, err := w.locker.Lock(w.ctx, r.Lock, fairlock.Note(r.Who))
	if err != nil {
		w.fail(err)
		return
	}
	e := event{Kind: onEntered, Lock: r.Lock, Who: r.Who, Token: lease.Token(), Asked: asked, At: now()}
	if r.Hold {
		w.ask(e)
	} else {
		w.tell(e)
	}
	w.sleep(r.Work)
	w.leave(lease, r.Who)
}

// leave says that it is about to unlock, and unlocks.
func (w *worker) leave(lease *fairlock.Lease, who string) {
	w.tell(event{Kind: onLeft, Lock: lease.Name(), Who: who, Token: lease.Token(), At: now()})
	if err := lease.Unlock(w.ctx); err != nil {
		w.fail(err)
		return
	}
	w.tell(event{Kind: onDone, Lock: lease.Name(), Who: who})
}

func (w *worker) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-w.ctx.Done():
	}
}

// depths is how deep nest goes.
const depths = 3

// nest takes a lock within itself and comes back. At each step it waits until it is told to go on.
func (w *worker) nest(r request) {
	asked := now()
	err := w.locker.Do(w.ctx, r.Lock, func(ctx context.Context, lease *fairlock.Lease) error {
		w.tell(event{Kind: onEntered, Lock: r.Lock, Who: r.Who, Token: lease.Token(), Asked: asked, At: now()})
		err := w.descend(ctx, r, lease)
		w.tell(event{Kind: onLeft, Lock: r.Lock, Who: r.Who, Token: lease.Token(), At: now()})
		return err
	})
	if err != nil {
		w.fail(err)
		return
	}
	w.tell(event{Kind: onDone, Lock: r.Lock, Who: r.Who})
}

// descend runs while lease is the innermost one: it goes one level further, and back. With ctx the
// next call re-enters.
func (w *worker) descend(ctx context.Context, r request, lease *fairlock.Lease) error {
	depth := lease.Depth()
	w.ask(event{Kind: onDeeper, Lock: r.Lock, Who: r.Who, Token: lease.Token(), Depth: depth})
	if depth == depths {
		return nil
	}
	err := w.locker.Do(ctx, r.Lock, func(ctx context.Context, lease *fairlock.Lease) error { return w.descend(ctx, r, lease) })
	if err == nil {
		w.ask(event{Kind: onBack, Lock: r.Lock, Who: r.Who, Token: lease.Token(), Depth: lease.Depth()})
	}
	return err
}
