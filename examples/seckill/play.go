package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/fairlock/locks/examples/internal/stage"
	"github.com/fairlock/locks/fairlock"
)

const (
	shops  = 4
	pieces = 100
	buyers = 20000
	early  = 12000 // of the buyers come before the doors open

	lamp, vase = "-lamp", "-vase" // the kinds of pieces, after the prefix of the run
)

// market is the sale as its owner sees it.
type market struct {
	*stage.Stage
	crew   *stage.Crew[event]
	db     database
	locker *fairlock.Locker
	shops  []*stage.Process
	seen   map[what]int // how often each event came
	told   tally        // what the buyers went home with
	woke   event        // what the sleeper saw
}

func play(ctx context.Context, s *stage.Stage) (err error) {
	if *postgres == "" && *sqlite == "" {
		dir, err := s.TempDir()
		if err != nil {
			return err
		}
		if err := flag.Set("sqlite", filepath.Join(dir, "shop.db")); err != nil {
			return err
		}
	}
	m := &market{Stage: s, seen: make(map[what]int)}
	if m.db, err = open(ctx, *postgres, *sqlite); err != nil {
		return err
	}
	defer m.db.Close()
	if m.crew, err = stage.NewCrew[event](s); err != nil {
		return err
	}
	m.locker = fairlock.New(s.Redis, fairlock.WithPrefix(s.Prefix))
	defer m.locker.Close()
	first, err := m.flashSale(ctx, s.Prefix+lamp)
	if err != nil {
		return err
	}
	second, err := m.standstill(ctx, s.Prefix+vase)
	if err != nil {
		return err
	}
	return s.Audit("%s; %s", first, second)
}

// flashSale is the first part, with far more buyers than pieces.
func (m *market) flashSale(ctx context.Context, sku string) (summary string, err error) {
	if err := m.db.stock(ctx, sku, pieces); err != nil {
		return "", err
	}
	for i := range shops {
		p, err := m.crew.Start(fmt.Sprintf("shop %d", i+1))
		if err != nil {
			return "", err
		}
		m.shops = append(m.shops, p)
	}
	doors, err := m.locker.Lock(ctx, sku)
	if err != nil {
		return "", err
	}
	defer doors.Unlock(ctx)
	began := time.Now()
	m.admit(order{Do: crowd, SKU: sku, First: 1, Last: early})
	if err := m.await(ctx, arrived, shops); err != nil {
		return "", err
	}
	state, err := m.locker.Inspect(ctx, sku)
	if err != nil {
		return "", err
	}
	m.Check(len(state.Waiters) == mostInLine, "%d are in line", len(state.Waiters))
	m.Say("%d buyers come to closed doors, to %d shops: %d are in line, all others were told within %.1f s that it is full",
		early, shops, len(state.Waiters), time.Since(began).Seconds())
	m.admit(order{Do: crowd, SKU: sku, First: early + 1, Last: buyers, OneByOne: true})
	if err := doors.Unlock(ctx); err != nil {
		return "", err
	}
	if err := m.await(ctx, home, 2*shops); err != nil {
		return "", err
	}
	m.Say("%d bought, %d were told that it is sold out, %d that the line is full; %d had asked the server",
		m.told.Bought, m.told.SoldOut, m.told.Full, m.told.Asked)
	return m.count(ctx, sku, state.Waiters)
}

// admit sends the buyers, each to the next shop.
func (m *market) admit(o order) {
	o.Step = len(m.shops)
	for _, p := range m.shops {
		p.Send(o)
		o.First++
	}
}

// await handles events until it has seen the given number of a kind, counted from the beginning.
func (m *market) await(ctx context.Context, want what, times int) error {
	for m.seen[want] < times {
		e, err := m.crew.Next(ctx)
		if err != nil {
			return err
		}
		m.seen[e.What]++
		switch e.What {
		case sold:
			if e.SKU == m.Prefix+lamp {
				m.Bar("doors open:", pieces-e.Left, pieces)
			}
		case home:
			m.told.Bought += e.Tally.Bought
			m.told.SoldOut += e.Tally.SoldOut
			m.told.Full += e.Tally.Full
			m.told.Lost += e.Tally.Lost
			m.told.Asked += e.Tally.Asked
		case awake:
			m.woke = e
		}
	}
	return nil
}

// count compares the sales in the database with the line that stood before the doors, and with what
// the buyers were told.
func (m *market) count(ctx context.Context, sku string, line []fairlock.Waiter) (summary string, err error) {
	sales, left, err := m.db.sales(ctx, sku)
	if err != nil {
		return "", err
	}
	m.Check(len(sales) == pieces && left == 0, "%d of %d pieces were sold, and %d are left", len(sales), pieces, left)
	inOrder := 0
	for i, sale := range sales {
		m.Check(i == 0 || sale.token > sales[i-1].token, "buyer %d had token %d after %d", sale.buyer, sale.token, sales[max(i, 1)-1].token)
		if i < len(line) && line[i].Note == strconv.Itoa(sale.buyer) {
			inOrder++
		}
	}
	m.Check(inOrder == pieces, "%d pieces were sold in the order of the line", inOrder)
	m.Check(m.told.Lost == 0, "%d lost the lock before they had bought", m.told.Lost)
	all := m.told.Bought + m.told.SoldOut + m.told.Full + m.told.Lost
	m.Check(m.told.Bought == len(sales), "%d buyers believe that they have one of %d pieces", m.told.Bought, len(sales))
	m.Check(all == buyers, "%d buyers have gone home", all)
	return fmt.Sprintf("%d buyers, %d of %d pieces sold, to the first %d in line and in their order, %d left", all, len(sales), pieces, inOrder, left), nil
}
