package workloads

import (
	"context"
	"strconv"
	"time"

	"github.com/fairlock/locks/bench/host"
)

// burst is workload 9.
var burst = Workload{
	Name:  "burst",
	Title: "9. A burst",
	About: "All callers come at once, over 4 processes, for one key; each locks, unlocks at once and is done. The rate is over the time until the " +
		"last unlock.",
	Columns: []Column{
		{"rate", "calls/s"},
		{"p99", "wait p99 ms"},
		{"requests", "requests/call"},
		{"server", "server CPU us/call"},
		{"client", "client CPU us/call"},
	},
	Plot: "rate",
	Cases: func(s Scale) []Case {
		return []Case{{Label: strconv.Itoa(s.Buyers) + " callers", Size: s.Buyers}}
	},
	Run: runBurst,
	Goals: func(at Lookup) []Goal {
		return []Goal{goal("at most 0.5 requests a call", func() (float64, bool) { return first(at, ours, "requests") }, atMost(0.5))}
	},
}

// ComeArgs makes callers come at one instant.
type ComeArgs struct {
	Key     string
	Callers int
	Start   time.Time
}

// ComeReply is how the callers fared.
type ComeReply struct {
	Waits []int64 // ns
	Last  int64   // when the last unlock had returned (Unix ns)
	CPU   time.Duration
}

func runBurst(ctx context.Context, b *Bench) (Sample, error) {
	team := min(processes, b.Case.Size)
	hired, err := b.hire(ctx, team, b.Case.Size/team, b.Scale.Long)
	if err != nil {
		return nil, err
	}
	if err := b.warm(ctx, hired); err != nil {
		return nil, err
	}
	if err := b.prepare(ctx, b.Key); err != nil {
		return nil, err
	}
	args := ComeArgs{Key: b.Key, Callers: b.Case.Size / team, Start: time.Now().Add(200 * time.Millisecond)}
	replies := make([]ComeReply, team)
	stats, err := b.used(ctx, func() error {
		return inEach(hired, func(i int, w *host.Worker) error { return w.Call(ctx, "Come", args, &replies[i]) })
	})
	if err != nil {
		return nil, err
	}
	n := float64(args.Callers * team)
	var waits []int64
	var last int64
	sample := Sample{"server": us(stats.CPU) / n, "requests": b.requests(stats) / n}
	for _, r := range replies {
		waits, last = append(waits, r.Waits...), max(last, r.Last)
		sample["client"] += us(r.CPU) / n
	}
	sample["p99"] = ms(time.Duration(quantile(waits, 0.99)))
	sample["rate"] = n / time.Unix(0, last).Sub(args.Start).Seconds()
	return sample, nil
}

// Come runs the callers.
func (w *Worker) Come(args ComeArgs, r *ComeReply) error {
	r.Waits = make([]int64, args.Callers)
	cpu, err := atOnce(args.Callers, args.Start, func(i int) error {
		began := time.Now()
		lock, err := w.locker.Lock(context.Background(), args.Key, nil)
		r.Waits[i] = int64(time.Since(began))
		if err != nil {
			return err
		}
		return lock.Unlock(context.Background())
	})
	r.CPU, r.Last = cpu, time.Now().UnixNano()
	return err
}
