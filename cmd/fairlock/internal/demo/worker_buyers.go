package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// paying is how long a buyer has the shop to itself.
const paying = 3 * time.Millisecond

// market is a context that ends when everything is sold.
type market struct {
	ctx   context.Context
	close context.CancelFunc
}

func newMarket(ctx context.Context) market {
	ctx, cancel := context.WithCancel(ctx)
	return market{ctx, cancel}
}

func (m market) isClosed() bool { return m.ctx.Err() != nil }

// crowd sends buyers one after the other, evenly over the time in r.
func (w *worker) crowd(r request) {
	began := time.Now()
	for i, n := range r.Numbers {
		due := began.Add(r.Work * time.Duration(i) / time.Duration(len(r.Numbers)))
		w.sleep(time.Until(due))
		who := fmt.Sprintf("buyer %d", n)
		w.tasks.Go(func() {
			asked := now()
			if result := w.shop(r, who, asked); result != "" {
				w.tell(event{Kind: onTold, Who: who, Result: result, Waited: time.Duration(now() - asked)})
			}
		})
	}
}

// shop is the visit of one buyer. It returns the buyer's result, or "" if something failed.
func (w *worker) shop(r request, who string, asked int64) string {
	if w.market.isClosed() {
		return wasSoldOut
	}
	lease, err := w.locker.Lock(w.market.ctx, r.Lock, fairlock.MaxWaiters(r.Most), fairlock.Note(who))
	switch {
	case errors.Is(err, fairlock.ErrQueueFull):
		return lineWasFull
	case err != nil && w.market.isClosed():
		return wasSoldOut
	case err != nil:
		w.fail(err)
		return ""
	}
	w.tell(event{Kind: onEntered, Lock: r.Lock, Who: who, Token: lease.Token(), Asked: asked, At: now()})
	result := w.buy(who, lease.Token())
	w.leave(lease, who)
	return result
}

// buy is the critical section: the buyer reads what is left and writes one less. Only the lock
// keeps two buyers from writing the same number. Only the token keeps an old holder from writing.
func (w *worker) buy(who string, token int64) string {
	seen, ok := w.ask(event{Kind: onLook, Who: who, Token: token})
	if !ok || seen.Stock == 0 {
		return wasSoldOut
	}
	w.sleep(paying)
	return w.sell(who, token, seen.Stock-1)
}

func (w *worker) sell(who string, token int64, stock int) string {
	if answer, ok := w.ask(event{Kind: onSale, Who: who, Token: token, Stock: stock}); !ok || !answer.OK {
		return refused
	}
	return bought
}

// cheat writes with an old token, as a buyer would that slept through the end of its lease.
func (w *worker) cheat(r request) {
	w.tell(event{Kind: onTold, Who: r.Who, Result: w.sell(r.Who, r.Token, r.Stock)})
}
