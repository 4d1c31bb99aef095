package demo

import (
	"cmp"
	"fmt"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/fairlock"
)

const (
	allBuyers   = 2000
	earlyBuyers = 1200 // they come before the doors open
	allPieces   = 100
	mostInLine  = 150
	comingEarly = 1200 * time.Millisecond
	comingLate  = 1200 * time.Millisecond // some come while there is something to buy, some when all is gone
)

// seckillScenario is the third scenario: far more buyers than pieces.
type seckillScenario struct {
	*session
	shop    shop
	order   *order
	results map[string]int
	turned  []time.Duration // the waits of buyers that were told that the line is full
	inside  int             // buyers that have entered and have not unlocked yet
	failed  error
}

// shop is what the lock guards: a number that each buyer reads and then writes. The shop refuses a
// token that is smaller than one it has seen.
type shop struct {
	stock, sold int
	token       int64
	first       int64 // the first token
}

// admits does the fencing: it refuses a token that is smaller than an earlier one.
func (s *shop) admits(token int64) bool {
	if token < s.token {
		return false
	}
	s.token = token
	if s.first == 0 {
		s.first = token
	}
	return true
}

func (s *shop) sell(token int64, stock int) bool {
	if !s.admits(token) {
		return false
	}
	s.stock = stock
	s.sold++
	return true
}

// seckill plays the third scenario.
func (s *session) seckill() error {
	s.screen.heading(fmt.Sprintf("Seckill: %s buyers, %d pieces, at most %d in line", look.Count(allBuyers), allPieces, mostInLine))
	scenario := &seckillScenario{session: s, shop: shop{stock: allPieces}, order: newOrder(nil), results: make(map[string]int)}
	g, err := s.shut("seckill")
	if err != nil {
		return err
	}
	defer g.abandon()
	if err := scenario.fill(); err != nil {
		return err
	}
	scenario.admit(earlyBuyers+1, allBuyers, comingLate)
	if err := g.open(); err != nil {
		return err
	}
	if err := scenario.serve(); err != nil {
		return err
	}
	return scenario.close()
}

// admit sends the buyers with these numbers, each to the next worker.
func (s *seckillScenario) admit(from, to int, over time.Duration) {
	workers := s.pool.workers
	lists := make([][]int, len(workers))
	for n := from; n <= to; n++ {
		lists[n%len(workers)] = append(lists[n%len(workers)], n)
	}
	for i, p := range workers {
		p.send(request{Do: doBuyers, Lock: "seckill", Numbers: lists[i], Work: over, Most: mostInLine})
	}
}

// fill lets the line form behind closed doors, until all early buyers are in line or turned away.
func (s *seckillScenario) fill() error {
	s.admit(1, earlyBuyers, comingEarly)
	err := s.each(func(e event) bool {
		s.take(e)
		return s.results[lineWasFull] == earlyBuyers-mostInLine || s.failed != nil
	})
	if err != nil || s.failed != nil {
		return cmp.Or(s.failed, err)
	}
	state, err := s.until("seckill", func(state *fairlock.State) bool { return len(state.Waiters) >= mostInLine })
	if err != nil {
		return err
	}
	s.crowded(state)
	s.order = newOrder(notes(state))
	s.screen.say("%s buyers come to closed doors: %d are in line, %s were told that it is full", look.Count(earlyBuyers), len(state.Waiters), look.Count(s.results[lineWasFull]))
	s.screen.aside("who was told so had asked %s before (p50; p99 %s)", output.Milliseconds(output.Percentile(s.turned, 0.50)), output.Milliseconds(output.Percentile(s.turned, 0.99)))
	return nil
}

// crowded checks the length of the line.
func (s *seckillScenario) crowded(state *fairlock.State) {
	if n := len(state.Waiters); n > mostInLine {
		s.witness.breaks("%d are in line, more than %d", n, mostInLine)
	}
}

// serve sells until all buyers have gone home.
func (s *seckillScenario) serve() error {
	defer s.screen.endBar()
	err := s.each(func(e event) bool {
		s.take(e)
		return s.failed != nil || s.told() == allBuyers && s.inside == 0
	})
	return cmp.Or(s.failed, err)
}

func (s *seckillScenario) told() int {
	return s.results[bought] + s.results[wasSoldOut] + s.results[lineWasFull] + s.results[refused]
}

// take answers a buyer, or notes the buyer's result.
func (s *seckillScenario) take(e event) {
	if e.Lock != "" && e.Lock != "seckill" {
		return // a worker is late to report that it has left the lock of another scenario
	}
	switch e.Kind {
	case onEntered:
		s.inside++
		s.order.serve(e.Who)
	case onDone:
		s.inside--
	case onLook:
		s.reply(e, request{OK: s.shop.admits(e.Token), Stock: s.shop.stock})
	case onSale:
		s.sale(e)
	case onTold:
		s.results[e.Result]++
		if e.Result == lineWasFull {
			s.turned = append(s.turned, e.Waited)
		}
	}
}

func (s *seckillScenario) reply(to event, c request) {
	c.Do, c.Who = doAnswer, to.Who
	s.pool.workers[to.Worker].send(c)
}

func (s *seckillScenario) sale(e event) {
	ok := s.shop.sell(e.Token, e.Stock)
	s.reply(e, request{OK: ok})
	if !ok {
		return
	}
	s.screen.bar(s.shop.sold, allPieces)
	switch s.shop.sold {
	case allPieces / 2:
		state, err := s.locker.Inspect(s.ctx, "seckill")
		if err != nil {
			s.failed = s.cause(err)
			return
		}
		s.crowded(state)
	case allPieces:
		s.pool.sendAll(request{Do: doSoldOut})
	}
}

// close tries an old token, and counts the stock.
func (s *seckillScenario) close() error {
	s.screen.say("%d bought, %s were told that it is sold out, %s that the line is full",
		s.results[bought], look.Count(s.results[wasSoldOut]), look.Count(s.results[lineWasFull]))
	sold, stock := s.shop.sold, s.shop.stock
	s.pool.workers[0].send(request{Do: doStale, Who: "a sleeper", Token: s.shop.first, Stock: allPieces - 1})
	var result string
	err := s.each(func(e event) bool {
		s.take(e)
		result = e.Result
		return e.Kind == onTold
	})
	if err != nil {
		return err
	}
	if result != refused || s.shop.stock != stock {
		s.witness.breaks("a stale token was let through")
	}
	s.screen.say("somebody wakes up with the first buyer's token and writes %d pieces into stock: %s", allPieces-1, result)
	s.report.sold, s.report.stock, s.report.buyers = sold, stock, s.told()-1 // the sleeper is no buyer
	s.report.soldOut, s.report.full = s.results[wasSoldOut], s.results[lineWasFull]
	if s.results[bought] != sold {
		s.witness.breaks("%d buyers have bought %d pieces", s.results[bought], sold)
	}
	s.witness.inversions += s.order.inversions
	return nil
}
