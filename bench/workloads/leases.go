package workloads

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/fairlock/locks/bench/host"
)

const oneProcess = 1_000 // leases or waiters; more than that are divided among processes

// leases is workload 6.
var leases = Workload{
	Name:  "leases",
	Title: "6. Leases that are held",
	About: "Locks of names of their own, held and renewed; one process up to 1,000, four beyond. Goroutines and bytes are what came on top of the " +
		"opened peer, after a garbage collection.",
	Columns: []Column{
		{"requests", "requests/s"},
		{"server", "server CPU ms/s"},
		{"client", "client CPU ms/s"},
		{"goroutines", "goroutines"},
		{"heap", "heap B/lease"},
		{"stack", "stack B/lease"},
	},
	Plot: "requests",
	Log:  true,
	Cases: func(s Scale) []Case {
		var cases []Case
		for _, n := range s.Leases {
			cases = append(cases, Case{Label: strconv.Itoa(n) + " leases", Size: n, Repeats: 3})
		}
		return cases
	},
	Run: runLeases,
	Goals: func(at Lookup) []Goal {
		const some, many = "1000 leases", "100000 leases"
		return []Goal{
			goal("1,000 leases: at most 1 request/s", func() (float64, bool) { return at(ours, some, "requests") }, atMost(1)),
			goal("100,000 leases: at most 100 requests/s", func() (float64, bool) { return at(ours, many, "requests") }, atMost(100)),
			goal("goroutines independent of their number: those beyond four times those of 1,000", func() (float64, bool) {
				x, ok := at(ours, many, "goroutines")
				y, ok2 := at(ours, some, "goroutines")
				return x - processes*y, ok && ok2
			}, atMost(0)),
			goal("at most 1 KiB each", func() (float64, bool) { return at(ours, many, "heap") }, atMost(1024)),
		}
	},
}

func runLeases(ctx context.Context, b *Bench) (Sample, error) {
	team := teamFor(b.Case.Size)
	hired, err := b.hire(ctx, team, 1, b.Scale.Long)
	if err != nil {
		return nil, err
	}
	return b.watch(ctx, hired, func() error {
		return inEach(hired, func(i int, w *host.Worker) error {
			args := HoldArgs{Prefix: b.Key + "-" + strconv.Itoa(i) + "-", Leases: b.Case.Size / team}
			return w.Call(ctx, "Hold", args, &None{})
		})
	})
}

func teamFor(size int) int {
	if size > oneProcess {
		return processes
	}
	return 1
}

// watch measures what it takes the workers to be busy: what being busy adds to a process, and what
// goes on while time passes.
func (b *Bench) watch(ctx context.Context, hired []*host.Worker, busy func() error) (Sample, error) {
	sizes := func() ([]Size, error) {
		all := make([]Size, len(hired))
		return all, inEach(hired, func(i int, w *host.Worker) error { return w.Call(ctx, "Size", None{}, &all[i]) })
	}
	// The first use fills the pool of connections, so that its cost is not counted.
	err := inEach(hired, func(_ int, w *host.Worker) error {
		return w.Call(ctx, "Pairs", PairsArgs{Key: b.Key + "-warm-", Goroutines: 64, Each: 3}, &PairsReply{})
	})
	if err != nil {
		return nil, err
	}
	idle, err := sizes()
	if err != nil {
		return nil, err
	}
	if err := busy(); err != nil {
		return nil, err
	}
	before, err := sizes()
	if err != nil {
		return nil, err
	}
	cpu := make([]time.Duration, len(hired))
	stats, err := b.used(ctx, func() error {
		from := make([]time.Duration, len(hired))
		for i, w := range hired {
			if err := w.Call(ctx, "CPU", None{}, &from[i]); err != nil {
				return err
			}
		}
		time.Sleep(b.Scale.Window)
		for i, w := range hired {
			if err := w.Call(ctx, "CPU", None{}, &cpu[i]); err != nil {
				return err
			}
			cpu[i] -= from[i]
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	n, seconds := float64(b.Case.Size), b.Scale.Window.Seconds()
	sample := Sample{"requests": b.requests(stats) / seconds, "server": ms(stats.CPU) / seconds}
	for i := range hired {
		sample["client"] += ms(cpu[i]) / seconds
		sample["goroutines"] += float64(before[i].Goroutines - idle[i].Goroutines)
		if idle[i].Heap >= 0 {
			sample["heap"] += max(0, before[i].Heap-idle[i].Heap) / n
			sample["stack"] += max(0, before[i].Stack-idle[i].Stack) / n // the stacks may have shrunk
		}
	}
	return sample, nil
}

// inEach calls all workers at the same time.
func inEach(hired []*host.Worker, call func(i int, w *host.Worker) error) error {
	failed := make(chan error, len(hired))
	for i, w := range hired {
		go func() { failed <- call(i, w) }()
	}
	var err error
	for range hired {
		err = errors.Join(err, <-failed)
	}
	return err
}

// HoldArgs asks for locks that the worker keeps.
type HoldArgs struct {
	Prefix string
	Leases int
}

// Hold locks many names at a time and keeps the locks.
func (w *Worker) Hold(args HoldArgs, _ *None) error {
	var all sync.WaitGroup
	failed := make(chan error, args.Leases)
	room := make(chan struct{}, 64)
	for i := range args.Leases {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			var at int64
			if err := w.Acquire(args.Prefix+strconv.Itoa(i), &at); err != nil {
				failed <- err
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}
