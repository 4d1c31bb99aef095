package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/locks/examples/internal/stage"
)

const (
	sleeper = "sleeper" // the name of its process
	vases   = 10
	others  = 5 // buyers that come while the sleeper sleeps
)

// standstill is the second part: the process of a buyer stands still while the buyer holds the
// lock.
func (m *market) standstill(ctx context.Context, sku string) (summary string, err error) {
	if err := m.db.stock(ctx, sku, vases); err != nil {
		return "", err
	}
	victim, err := m.crew.Start(sleeper)
	if err != nil {
		return "", err
	}
	other, err := m.crew.Start("other")
	if err != nil {
		return "", err
	}
	victim.Send(order{Do: oversleep, SKU: sku, First: 0})
	if err := m.await(ctx, ready, 1); err != nil {
		return "", err
	}
	m.Say("\nA buyer has the lock, and is about to write that one of %d vases is sold.", vases)
	if err := victim.Pause(); err != nil {
		return "", err
	}
	m.Say("%s", stage.Red(fmt.Sprintf("SIGSTOP to its process %d", victim.PID())))
	stopped := time.Now()
	other.Send(order{Do: crowd, SKU: sku, First: 1, Last: others, Step: 1})
	if err := m.await(ctx, home, 2*shops+1); err != nil {
		return "", err
	}
	m.Say("Its lease ends, and %d others buy, within %.1f s.", others, time.Since(stopped).Seconds())
	if err := victim.Resume(); err != nil {
		return "", err
	}
	victim.Send(order{Do: wakeUp})
	return m.wakes(ctx, sku)
}

// wakes checks what happens to the sleeper's write.
func (m *market) wakes(ctx context.Context, sku string) (summary string, err error) {
	if err := m.await(ctx, awake, 1); err != nil {
		return "", err
	}
	sales, left, err := m.db.sales(ctx, sku)
	if err != nil {
		return "", err
	}
	m.Say("SIGCONT: it wakes up. Its lease says that the lock is lost: %t. The database refuses its write: %t.", m.woke.Lost, m.woke.Stale)
	m.Check(m.woke.Lost, "the sleeper did not hear that its lock is lost")
	m.Check(m.woke.Stale && len(sales) == others && left == vases-others, "%d vases are sold and %d left after a stale write", len(sales), left)
	return "a stale write refused", nil
}
