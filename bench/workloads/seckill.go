package workloads

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/fairlock/locks/bench/host"
	"github.com/fairlock/locks/bench/peers"
)

const (
	lineBound = 100 // waiters
	buying    = time.Millisecond
)

var errCannotRefuse = errors.New("it cannot refuse")

// seckill is workload 8.
var seckill = Workload{
	Name:  "seckill",
	Title: "8. A flash sale",
	About: "All buyers come at once, over 4 processes, for one key whose line takes 100; who does not fit is refused, who is accepted holds for 1 ms. " +
		"A peer without a line refuses whenever somebody holds. The rates are over the time until the last refusal or, for the accepted, the last " +
		"unlock. The floor is a plain GET by each buyer, on the same client.",
	Columns: []Column{
		{"refusals", "refusals/s"},
		{"p99", "refusal p99 ms"},
		{"accepted", "accepted/s"},
		{"sold", "accepted"},
		{"server", "server CPU us/buyer"},
		{"client", "client CPU us/buyer"},
	},
	Plot: "refusals",
	Cases: func(s Scale) []Case {
		return []Case{{Label: strconv.Itoa(s.Buyers) + " buyers", Size: s.Buyers}}
	},
	Run: runSeckill,
	Goals: func(at Lookup) []Goal {
		return []Goal{ratioLeast(at, "refusals at least 0.8x the speed of a plain GET", "refusals", ours, "GET", 0.8)}
	},
}

// BuyArgs makes buyers come at one instant.
type BuyArgs struct {
	Key    string
	Buyers int
	Start  time.Time
}

// BuyReply is how the buyers fared.
type BuyReply struct {
	Refused             []time.Duration // how long each refusal took
	Sold                int
	LastRefusal, Closed int64 // when (Unix ns); 0: never
	CPU                 time.Duration
}

func runSeckill(ctx context.Context, b *Bench) (Sample, error) {
	team := min(processes, b.Case.Size)
	hired, err := b.hire(ctx, team, 1, b.Scale.Long)
	if err != nil {
		return nil, err
	}
	if err := b.warm(ctx, hired); err != nil {
		return nil, err
	}
	args := BuyArgs{Key: b.Key, Buyers: b.Case.Size / team, Start: time.Now().Add(200 * time.Millisecond)}
	replies := make([]BuyReply, team)
	stats, err := b.used(ctx, func() error {
		return inEach(hired, func(i int, w *host.Worker) error { return w.Call(ctx, "Buy", args, &replies[i]) })
	})
	if err != nil {
		return nil, err
	}
	var refused []time.Duration
	var sold, lastRefusal, closed float64
	sample := Sample{}
	for _, r := range replies {
		refused = append(refused, r.Refused...)
		sold += float64(r.Sold)
		lastRefusal = max(lastRefusal, time.Unix(0, r.LastRefusal).Sub(args.Start).Seconds())
		closed = max(closed, time.Unix(0, r.Closed).Sub(args.Start).Seconds())
		sample["client"] += us(r.CPU) / float64(b.Case.Size)
	}
	sample["server"] = us(stats.CPU) / float64(b.Case.Size)
	sample["sold"] = sold
	if len(refused) > 0 {
		sample["refusals"], sample["p99"] = float64(len(refused))/lastRefusal, ms(quantile(refused, 0.99))
	}
	if sold > 0 {
		sample["accepted"] = sold / closed
	}
	return sample, nil
}

// Buy runs the buyers.
func (w *Worker) Buy(args BuyArgs, r *BuyReply) error {
	shop, ok := w.locker.(peers.Trier)
	if !ok {
		return errCannotRefuse
	}
	var mu sync.Mutex // guards r
	cpu, err := atOnce(args.Buyers, args.Start, func(int) error {
		began := time.Now()
		lock, err := shop.Try(context.Background(), args.Key, lineBound)
		took := time.Since(began)
		if err == nil {
			time.Sleep(buying)
			err = lock.Unlock(context.Background())
		}
		now := time.Now().UnixNano()
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, peers.ErrRefused):
			r.Refused, r.LastRefusal = append(r.Refused, took), now
			return nil
		case err == nil:
			r.Sold, r.Closed = r.Sold+1, now
		}
		return err
	})
	r.CPU = cpu
	return err
}
