package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/fairlock/locks/fairlock"
)

// shop is where buyers come. There are several shops, each in a process of its own.
type shop struct {
	db     database
	locker *fairlock.Locker
	inside chan struct{}   // has one element for each buyer that waits or is served
	open   context.Context // ends when everything is sold
	close  context.CancelFunc
	wake   chan struct{}
	tell   func(any)
}

func newShop(ctx context.Context, db database, locker *fairlock.Locker, tell func(any)) *shop {
	s := &shop{db: db, locker: locker, inside: make(chan struct{}, mostInLine+1), wake: make(chan struct{}), tell: tell}
	s.open, s.close = context.WithCancel(ctx)
	return s
}

// buy is the visit of one buyer: the buyer stands in line and buys in its turn. It returns nil if
// the buyer has a piece.
func (s *shop) buy(sku string, buyer int, options ...fairlock.LockOption) error {
	options = append(options, fairlock.MaxWaiters(mostInLine), fairlock.Note(strconv.Itoa(buyer)))
	hasIt := false
	err := s.locker.Do(s.open, sku, func(ctx context.Context, lease *fairlock.Lease) error {
		left, err := s.db.sell(ctx, sku, buyer, lease.Token())
		if err == nil {
			hasIt = true
			s.tell(event{What: sold, SKU: sku, Left: left})
		}
		return err
	}, options...)
	if hasIt {
		return nil // even if the lock was lost since: the token was good when the sale was committed
	}
	if errors.Is(err, errSoldOut) {
		s.close() // the buyers that wait in this shop can go home
	}
	return err
}

// What the shop itself tells a buyer, without asking the server.
var (
	errCrowded = fmt.Errorf("as many as there may be, with the one that is served, are in this shop alone: %w", fairlock.ErrQueueFull)
	errClosed  = fmt.Errorf("the shop has closed: %w", errSoldOut)
)

// enter lets a buyer in, or returns the reason why not.
func (s *shop) enter() error {
	if s.open.Err() != nil {
		return errClosed
	}
	select {
	case s.inside <- struct{}{}:
		return nil
	default:
		return errCrowded
	}
}

// serve lets the buyers of the order come.
func (s *shop) serve(o order) error {
	results := make(chan error, o.Last)
	var inLine, buyers sync.WaitGroup
	for buyer := o.First; buyer <= o.Last; buyer += o.Step {
		if err := s.enter(); err != nil {
			results <- err
			continue
		}
		inLine.Add(1)
		buyers.Go(func() {
			isInLine := sync.OnceFunc(inLine.Done)
			results <- s.buy(o.SKU, buyer, fairlock.OnQueued(func(int) { isInLine() }))
			isInLine()
			<-s.inside
		})
		if o.OneByOne {
			inLine.Wait()
		}
	}
	inLine.Wait()
	s.tell(event{What: arrived})
	buyers.Wait()
	close(results)
	all, err := count(results)
	s.tell(event{What: home, Tally: all})
	return err
}

// oversleep is a buyer whose process stands still at the worst moment: after it has checked
// everything, and before its write is out. A holder notices when its lock is lost, but cannot call
// back a write that is on its way. Only the token can stop that write.
func (s *shop) oversleep(ctx context.Context, sku string, buyer int) error {
	lease, err := s.locker.Lock(ctx, sku, fairlock.Note(strconv.Itoa(buyer)))
	if err != nil {
		return err
	}
	s.tell(event{What: ready})
	<-s.wake // the process is stopped here, and goes on when others have bought
	lost := errors.Is(lease.Err(), fairlock.ErrLost)
	_, err = s.db.sell(ctx, sku, buyer, lease.Token())
	s.tell(event{What: awake, Lost: lost, Stale: errors.Is(err, errStale)})
	if err := lease.Unlock(ctx); !errors.Is(err, fairlock.ErrLost) {
		return err
	}
	return nil
}

// tally counts how buyers went home, and how many of them had asked the server.
type tally struct{ Bought, SoldOut, Full, Lost, Asked int }

// count counts buyers by their errors.
func count(results <-chan error) (all tally, err error) {
	for result := range results {
		if !errors.Is(result, errCrowded) && !errors.Is(result, errClosed) {
			all.Asked++
		}
		switch {
		case result == nil:
			all.Bought++
		case errors.Is(result, fairlock.ErrQueueFull):
			all.Full++
		case errors.Is(result, fairlock.ErrLost): // before the buyer had bought
			all.Lost++
		case errors.Is(result, errSoldOut), errors.Is(result, context.Canceled): // while the buyer waited
			all.SoldOut++
		default:
			err = result
		}
	}
	return all, err
}
