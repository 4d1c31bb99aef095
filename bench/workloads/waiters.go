package workloads

import (
	"context"
	"strconv"
	"time"

	"github.com/fairlock/locks/bench/host"
)

// waiters is workload 7.
var waiters = Workload{
	Name:  "waiters",
	Title: "7. Waiters that wait",
	About: "Calls of Lock that wait for one key that another process holds; one process up to 1,000 of them, four beyond. Each call has a goroutine of " +
		"the caller's: goroutines are those beyond that, heap and stack bytes are all (a caller's own stack is 2 KiB and more).",
	Columns: []Column{
		{"requests", "requests/s"},
		{"server", "server CPU ms/s"},
		{"client", "client CPU ms/s"},
		{"goroutines", "goroutines"},
		{"heap", "heap B/waiter"},
		{"stack", "stack B/waiter"},
		{"failed", "calls that failed"},
	},
	Plot: "requests",
	Log:  true,
	Cases: func(s Scale) []Case {
		var cases []Case
		for _, n := range s.Crowds {
			cases = append(cases, Case{Label: strconv.Itoa(n) + " waiters", Size: n, Repeats: 3})
		}
		return cases
	},
	Run: runWaiters,
	Goals: func(at Lookup) []Goal {
		const some, many = "1000 waiters", "50000 waiters"
		return []Goal{
			goal("1,000 waiters: at most 1 request/s", func() (float64, bool) { return at(ours, some, "requests") }, atMost(1)),
			goal("50,000 waiters: at most 25 requests/s", func() (float64, bool) { return at(ours, many, "requests") }, atMost(25)),
			goal("no goroutine of its own per waiter", func() (float64, bool) {
				x, ok := at(ours, many, "goroutines")
				return x / 50_000, ok
			}, atMost(0.01)),
			goal("at most 2 KiB each beyond the caller's own stack", func() (float64, bool) { return at(ours, many, "heap") }, atMost(2048)),
		}
	},
}

func runWaiters(ctx context.Context, b *Bench) (Sample, error) {
	n := b.Case.Size
	team := teamFor(n)
	hired, err := b.hire(ctx, 1+team, n/team, b.Scale.Long)
	if err != nil {
		return nil, err
	}
	holder, hired := hired[0], hired[1:]
	var at int64
	if err := holder.Call(ctx, "Acquire", b.Key, &at); err != nil {
		return nil, err
	}
	gaveUp := make([]int, len(hired)) // when the goroutines are counted
	sample, err := b.watch(ctx, hired, func() error {
		return inEach(hired, func(i int, w *host.Worker) error {
			if err := w.Call(ctx, "Wait", WaitArgs{Key: b.Key, Waiters: n / team}, &None{}); err != nil {
				return err
			}
			// Wait until all are in line. Asking the peers to tell would cost some of them more
			// than waiting.
			time.Sleep(2*b.Scale.Settle + time.Duration(n)*200*time.Microsecond)
			return w.Call(ctx, "Failed", None{}, &gaveUp[i])
		})
	})
	if err != nil {
		return nil, err
	}
	sample["goroutines"] -= float64(n) // n goroutines are the callers themselves
	for i, w := range hired {
		var failed int
		if err := w.Call(ctx, "Failed", None{}, &failed); err != nil {
			return nil, err
		}
		sample["failed"] += float64(failed)
		sample["goroutines"] += float64(gaveUp[i])
	}
	return sample, nil
}

// WaitArgs asks for calls that wait.
type WaitArgs struct {
	Key     string
	Waiters int
}

// Wait starts the calls and returns. The process is killed while they wait.
func (w *Worker) Wait(args WaitArgs, _ *None) error {
	for range args.Waiters {
		go func() {
			if _, err := w.locker.Lock(context.Background(), args.Key, nil); err != nil {
				w.failed.Add(1)
			}
		}()
	}
	return nil
}

// Failed returns how many of the calls have failed.
func (w *Worker) Failed(_ None, n *int) error {
	*n = int(w.failed.Load())
	return nil
}
