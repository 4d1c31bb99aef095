package workloads

import (
	"context"
	"time"

	"github.com/fairlock/locks/bench/host"
)

// The cases of workload 5.
const (
	killedHead   = "killed head"
	killedFive   = "five killed heads"
	killedHolder = "killed holder"
)

// crash is workload 5.
var crash = Workload{
	Name:  "crash",
	Title: "5. Killed processes",
	About: "A holder, heads of the line and one behind them, each a process of its own. The heads are killed (SIGKILL), then the holder " +
		"unlocks: the time from there until the one behind them holds. Or the holder is killed: the time from there until the one that waits " +
		"holds, beside the lease that was asked for (when it was renewed last is left to chance). A peer without a line has no head: the same " +
		"processes are killed. After the cap the wait is given up ('>').",
	Columns: []Column{{"next", "next holds after ms"}, {"over", "beyond the lease ms"}, {"requests", "requests meanwhile"}},
	Plot:    "next",
	Log:     true,
	Cases: func(Scale) []Case {
		return []Case{{Label: killedHead, Size: 1}, {Label: killedFive, Size: 5}, {Label: killedHolder, Size: 0}}
	},
	Run: runCrash,
	Goals: func(at Lookup) []Goal {
		return []Goal{
			goal("a killed head costs at most 50 ms", func() (float64, bool) { return at(ours, killedHead, "next") }, atMost(50)),
			goal("five killed heads cost at most 50 ms", func() (float64, bool) { return at(ours, killedFive, "next") }, atMost(50)),
			goal("a killed holder: the lease and at most 100 ms", func() (float64, bool) { return at(ours, killedHolder, "over") }, atMost(100)),
		}
	},
}

func runCrash(ctx context.Context, b *Bench) (Sample, error) {
	hired, err := b.hire(ctx, 2+b.Case.Size, 1, b.Scale.Lease)
	if err != nil {
		return nil, err
	}
	holder, heads, last := hired[0], hired[1:len(hired)-1], hired[len(hired)-1]
	var at int64
	if err := holder.Call(ctx, "Acquire", b.Key, &at); err != nil {
		return nil, err
	}
	for _, head := range heads {
		if _, err := b.lineUp(ctx, head); err != nil {
			return nil, err
		}
	}
	granted, err := b.lineUp(ctx, last)
	if err != nil {
		return nil, err
	}
	before, err := b.Server.Stats(ctx)
	if err != nil {
		return nil, err
	}
	for _, head := range heads {
		head.Kill()
	}
	patience, sample := b.Scale.Cap, Sample{}
	if b.Case.Label == killedHolder {
		patience += b.Scale.Lease
		at = time.Now().UnixNano()
		holder.Kill()
	} else if err := holder.Call(ctx, "Release", b.Key, &at); err != nil {
		return nil, err
	}
	select {
	case g := <-granted:
		if g.err != nil {
			return nil, g.err
		}
		sample["next"] = ms(time.Duration(g.at - at))
	case <-time.After(patience):
		sample["next"], sample[Capped("next")] = ms(patience), 1
	}
	after, err := b.Server.Stats(ctx)
	sample["requests"] = b.requests(after.Minus(before))
	if b.Case.Label == killedHolder {
		sample["over"] = sample["next"] - ms(b.Scale.Lease)
		if mark, capped := sample[Capped("next")]; capped {
			sample[Capped("over")] = mark
		}
	}
	return sample, err
}

// grant is the time when an Acquire returned (Unix ns).
type grant struct {
	at  int64
	err error
}

// lineUp makes a worker ask for the lock and returns when the worker waits.
func (b *Bench) lineUp(ctx context.Context, w *host.Worker) (<-chan grant, error) {
	granted := make(chan grant, 1)
	go func() {
		var g grant
		g.err = w.Call(ctx, "Acquire", b.Key, &g.at)
		granted <- g
	}()
	return granted, b.queued(ctx, w, 1)
}
