package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/fairlock/locks/fairlock"
)

// shop is where buyers come. There are several, in processes of their own.
type shop struct {
	db     database
	locker *fairlock.Locker
	inside chan struct{}   // one for each buyer that waits or is served
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

// buy is one buyer's visit: in line, and when it is its turn, a sale. nil: it has a piece.
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
		s.close() // whoever waits here can go home
	}
	return err
}

// What a buyer is told at the door: there is no need to ask the server.
var (
	errCrowded = fmt.Errorf("as many as there may be, with the one that is served, are in this shop alone: %w", fairlock.ErrQueueFull)
	errClosed  = fmt.Errorf("the shop has closed: %w", errSoldOut)
)

// enter lets a buyer in, or tells it why not.
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

// serve has buyers come.
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

// oversleep is a buyer whose process stands still at the worst of moments: after everything was checked, and before the write is out.
// A holder notices when its lock is lost, but a write that is on its way cannot be called back. Only its token can stop it.
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

// tally is how many buyers went home with what, and how many of them had asked the server.
type tally struct{ Bought, SoldOut, Full, Lost, Asked int }

// count counts buyers by the errors with which they went home.
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
		case errors.Is(result, fairlock.ErrLost): // before it had bought
			all.Lost++
		case errors.Is(result, errSoldOut), errors.Is(result, context.Canceled): // while it waited
			all.SoldOut++
		default:
			err = result
		}
	}
	return all, err
}
