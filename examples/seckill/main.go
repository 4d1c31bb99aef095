// Command seckill is a flash sale from a real database: 20,000 buyers, 100 pieces and a line of at
// most 150. No piece is sold twice, and buyers are served in the order in which they came. Then a
// process stands still in the middle of a sale for longer than its lease, and the database refuses
// what the process writes when it wakes up.
package main

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/locks/examples/internal/stage"
	"github.com/fairlock/locks/fairlock"
)

const (
	mostInLine = 150
	shortLease = 2 * time.Second // of the buyer that oversleeps, so that the others need not wait for long
)

func main() { stage.Main(play, keep) }

// order tells a shop that the buyers First, First+Step and so on come, all at once or one after the
// other. Or it tells a buyer to oversleep, or to wake up.
type order struct {
	Do                what
	SKU               string
	First, Last, Step int
	OneByOne          bool
}

// event is what a shop tells.
type event struct {
	What        what
	SKU         string
	Left        int   // pieces
	Tally       tally // of a crowd
	Lost, Stale bool
}

type what string

const (
	crowd     what = "crowd"
	oversleep what = "oversleep"
	wakeUp    what = "wake up"

	arrived what = "arrived" // all of the crowd are in line, or have been told that the line is full
	sold    what = "sold"
	home    what = "home"  // all of the crowd have gone home
	ready   what = "ready" // the sleeper is ready to write
	awake   what = "awake" // what the lease and the database said to the sleeper then
)

// keep runs a shop: one of several processes that sell the same pieces.
func keep(ctx context.Context, s *stage.Stage, name string) error {
	db, err := open(ctx, *postgres, *sqlite)
	if err != nil {
		return err
	}
	defer db.Close()
	options := []fairlock.Option{fairlock.WithPrefix(s.Prefix)}
	if name == sleeper {
		options = append(options, fairlock.WithLease(shortLease))
	}
	locker := fairlock.New(s.Redis, options...)
	defer locker.Close()

	tasks, ctx := errgroup.WithContext(ctx)
	shop := newShop(ctx, db, locker, s.Tell)
	defer shop.close()
	for o := range stage.Orders[order](ctx, s) {
		switch o.Do {
		case crowd:
			tasks.Go(func() error { return shop.serve(o) })
		case oversleep:
			tasks.Go(func() error { return shop.oversleep(ctx, o.SKU, o.First) })
		case wakeUp:
			close(shop.wake)
		}
	}
	return tasks.Wait()
}
