package workloads

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// gap is workload 4.
var gap = Workload{
	Name:  "gap",
	Title: "4. The gap between two holders",
	About: "8 waiters over 4 processes, each holds for 1 ms. The gap is from the call of Unlock until somebody else's Lock has returned; if the " +
		"releaser itself is the next, that counts too (barging). The same over links that delay every byte, in each direction.",
	Columns: []Column{{"p50", "gap p50 us"}, {"p99", "gap p99 us"}, {"trips", "p50 in round trips"}, {"barged", "releaser again %"}},
	Plot:    "p50",
	Log:     true,
	Cases: func(s Scale) []Case {
		var cases []Case
		for _, d := range s.Delays {
			label := "loopback"
			if d > 0 {
				label = d.String() + " each way"
			}
			cases = append(cases, Case{Label: label, Size: 8, Delay: d})
		}
		return cases
	},
	Run: runGap,
	Goals: func(at Lookup) []Goal {
		const near, far = "loopback", "10ms each way"
		return []Goal{
			goal("loopback: at most 1.25x of the baton's", ratioIn(at, near, "p50", ours, batonFloor), atMost(1.25)),
			goal("loopback: at most 0.4x of Redisson's", ratioIn(at, near, "p50", ours, redissons), atMost(0.4)),
			goal("10 ms link: at most 1.1 round trips", func() (float64, bool) { return at(ours, far, "trips") }, atMost(1.1)),
		}
	},
}

func runGap(ctx context.Context, b *Bench) (Sample, error) {
	log, err := b.contend(ctx, b.Case.Size, time.Millisecond)
	if err != nil {
		return nil, err
	}
	all := log.measured
	slices.SortFunc(all, func(a, b Attempt) int { return cmp.Compare(a.Granted, b.Granted) })
	var gaps []int64
	barged := 0
	for i := 1; i < len(all); i++ {
		if all[i-1].Released == 0 {
			continue
		}
		gaps = append(gaps, all[i].Granted-all[i-1].Released)
		if all[i].Waiter == all[i-1].Waiter {
			barged++
		}
	}
	if len(gaps) == 0 {
		return nil, errors.New("nobody handed over")
	}
	sample := Sample{
		"p50": us(time.Duration(quantile(gaps, 0.50))), "p99": us(time.Duration(quantile(gaps, 0.99))),
		"barged": 100 * float64(barged) / float64(len(gaps)),
	}
	if trip := 2 * b.Case.Delay; trip > 0 {
		sample["trips"] = sample["p50"] / us(trip)
	}
	return sample, nil
}
