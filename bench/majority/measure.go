package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlock/locks/bench/host"
)

// row is what was measured of one contestant. Times are in microseconds.
type row struct {
	pair, pair99, cpu, perPair      float64
	gap, gap99, rate, perTurn, wait float64
	least, most                     float64 // turns of one waiter
	later, overlaps, falling        float64
}

func (r row) String() string {
	return fmt.Sprintf("%.0f|%.0f|%.0f|%.1f|%.0f|%.0f|%.0f|%.1f|%.0f..%.0f|%.0f|%.0f|%.0f|%.0f",
		r.pair, r.pair99, r.cpu, r.perPair, r.gap, r.gap99, r.rate, r.perTurn, r.least, r.most, r.wait/1000, r.later, r.overlaps, r.falling)
}

// median is that of each figure; what must not be is added up.
func median(rows []row) (m row) {
	of := func(figure func(*row) *float64) {
		all := make([]float64, len(rows))
		for i := range rows {
			all[i] = *figure(&rows[i])
		}
		slices.Sort(all)
		*figure(&m) = all[len(all)/2]
	}
	for _, figure := range []func(*row) *float64{
		func(r *row) *float64 { return &r.pair }, func(r *row) *float64 { return &r.pair99 },
		func(r *row) *float64 { return &r.cpu }, func(r *row) *float64 { return &r.perPair },
		func(r *row) *float64 { return &r.gap }, func(r *row) *float64 { return &r.gap99 },
		func(r *row) *float64 { return &r.rate }, func(r *row) *float64 { return &r.perTurn },
		func(r *row) *float64 { return &r.wait }, func(r *row) *float64 { return &r.least },
		func(r *row) *float64 { return &r.most },
	} {
		of(figure)
	}
	for _, r := range rows {
		m.later, m.overlaps, m.falling = m.later+r.later, m.overlaps+r.overlaps, m.falling+r.falling
	}
	return m
}

// quantile is that of sorted times, in microseconds.
func quantile(all []time.Duration, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return float64(all[min(len(all)-1, int(q*float64(len(all))))]) / 1e3
}

// pairs locks and unlocks what nobody else wants, and returns how often.
func pairs(ctx context.Context, l locker, lasts time.Duration, r *row, n *nodes) (int, error) {
	before, cpu, began := n.requests(ctx), host.CPU(), time.Now()
	var took []time.Duration
	for time.Since(began) < lasts {
		at := time.Now()
		_, unlock, err := l.lock(ctx)
		if err == nil {
			err = unlock()
		}
		if err != nil {
			return 0, err
		}
		took = append(took, time.Since(at))
	}
	count := float64(len(took))
	r.cpu = float64((host.CPU()-cpu)/time.Microsecond) / count
	r.perPair = float64(n.requests(ctx)-before) / count
	r.pair, r.pair99 = quantile(took, 0.5), quantile(took, 0.99)
	return len(took), nil
}

// turn is one ownership.
type turn struct {
	waiter                   int
	asked, granted, released time.Duration // since the beginning
	token                    int64
}

// contend has all waiters lock, hold and unlock one lock, again and again.
func contend(ctx context.Context, lockers []locker, s scale, r *row, n *nodes) error {
	before, began := n.requests(ctx), time.Now()
	var inside, overlaps atomic.Int64
	var mu sync.Mutex // guards turns and failed
	var turns []turn
	var failed error
	var all sync.WaitGroup
	for i := range s.waiters {
		all.Go(func() {
			for time.Since(began) < s.lasts {
				t := turn{waiter: i, asked: time.Since(began)}
				token, unlock, err := lockers[i%len(lockers)].lock(ctx)
				t.granted, t.token = time.Since(began), token
				if err == nil {
					if inside.Add(1) > 1 {
						overlaps.Add(1)
					}
					time.Sleep(s.holds)
					inside.Add(-1)
					t.released = time.Since(began)
					err = unlock()
				}
				mu.Lock()
				turns, failed = append(turns, t), err
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	if failed != nil {
		return failed
	}
	r.overlaps, r.perTurn = float64(overlaps.Load()), float64(n.requests(ctx)-before)/float64(len(turns))
	r.rate = float64(len(turns)) / time.Since(began).Seconds()
	judge(turns, s, r)
	return nil
}

// judge reads the turns.
func judge(turns []turn, s scale, r *row) {
	slices.SortFunc(turns, func(a, b turn) int { return int(a.granted - b.granted) })
	each := make([]float64, s.waiters)
	var gaps []time.Duration
	for i, t := range turns {
		each[t.waiter]++
		r.wait = max(r.wait, float64((t.granted-t.asked)/time.Microsecond))
		if i > 0 {
			gaps = append(gaps, t.granted-turns[i-1].released)
			if t.token < turns[i-1].token {
				r.falling++
			}
		}
		for _, other := range turns[i+1:] { // who asked 20 ms before t, and was let in after it
			if other.asked+20*time.Millisecond < t.asked {
				r.later++
				break
			}
		}
	}
	r.gap, r.gap99 = quantile(gaps, 0.5), quantile(gaps, 0.99)
	r.least, r.most = slices.Min(each), slices.Max(each)
}
