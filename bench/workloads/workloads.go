// Package workloads has the workloads that are measured, one file for each. A file has the part of
// the program that directs the workload and the part that runs in its workers.
package workloads

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/locks/bench/host"
	"github.com/fairlock/locks/bench/peers"
)

// Workload is one thing to do with a lock, in one or more cases.
type Workload struct {
	Name    string
	Title   string
	About   string   // what is done, and what the columns mean
	Columns []Column // of the workload's table
	Plot    string   // the key of the column that is drawn
	Log     bool     // draw on a logarithmic scale
	Cases   func(Scale) []Case
	Run     func(context.Context, *Bench) (Sample, error)
	Goals   func(Lookup) []Goal
}

// Column is one figure of a workload.
type Column struct{ Key, Head string }

// Case is a variant of a workload.
type Case struct {
	Label   string
	Size    int // the number of waiters, leases and the like; peers have limits for it
	Delay   time.Duration
	Repeats int // at most; 0: as many as the scale has
}

// Sample is the result of one run of one peer: figures by the key of their column.
type Sample map[string]float64

// Capped returns the key that marks a figure as capped: the run did not wait for it any longer.
func Capped(key string) string { return key + " capped" }

// Lookup finds the median of a figure. Its bool is false if the figure was not measured.
type Lookup func(peer, label, key string) (float64, bool)

// Scale sets the size of everything.
type Scale struct {
	Name    string
	Repeats int
	Pairs   int           // of one goroutine
	Keys    time.Duration // of pairs on keys of their own
	Lines   []int         // waiters of one key that is handed over
	Contend time.Duration // of hand-overs
	Delays  []time.Duration
	Cap     time.Duration // how long a run waits for the next holder
	Lease   time.Duration // of holders that are killed
	Leases  []int
	Crowds  []int
	Window  time.Duration // how long held locks or waiters are watched
	Long    time.Duration // the lease meanwhile
	Buyers  int
	Settle  time.Duration // how long to wait for a peer that does not tell that it waits
	Warm    int           // locks that a peer takes and gives back first, if it has to get warm
}

// The scales: Full is what the documents show, Quick is for work on the code, and Tiny shows that
// everything works at all.
var (
	Full = Scale{
		Name: "full", Repeats: 5, Pairs: 5_000, Keys: 3 * time.Second, Lines: []int{2, 8, 64, 256, 1_000, 10_000},
		Contend: 3 * time.Second, Delays: []time.Duration{0, time.Millisecond, 10 * time.Millisecond},
		Cap: 30 * time.Second, Lease: 5 * time.Second, Leases: []int{1_000, 100_000}, Crowds: []int{1_000, 50_000},
		Window: 30 * time.Second, Long: 30 * time.Second, Buyers: 20_000, Settle: time.Second, Warm: 40_000,
	}
	Quick = Scale{
		Name: "quick", Repeats: 1, Pairs: 1_000, Keys: 300 * time.Millisecond, Lines: []int{8, 64},
		Contend: 300 * time.Millisecond, Delays: []time.Duration{0, 10 * time.Millisecond},
		Cap: 1500 * time.Millisecond, Lease: 2 * time.Second, Leases: []int{500}, Crowds: []int{200},
		Window: 1500 * time.Millisecond, Long: 3 * time.Second, Buyers: 2_000, Settle: 200 * time.Millisecond, Warm: 40_000,
	}
	Tiny = Scale{
		Name: "tiny", Repeats: 1, Pairs: 5, Keys: 20 * time.Millisecond, Lines: []int{4},
		Contend: 2 * time.Second, Delays: []time.Duration{time.Millisecond},
		Cap: time.Second, Lease: 3 * time.Second, Leases: []int{4}, Crowds: []int{4},
		Window: 50 * time.Millisecond, Long: 3 * time.Second, Buyers: 240, Settle: 50 * time.Millisecond, Warm: 80,
	}
)

// All lists the workloads in the order of the document.
func All() []Workload {
	return []Workload{pair, keys, handover, gap, crash, leases, waiters, seckill, burst}
}

// Bench has what one run works with: a peer, a case, a server and the hired workers.
type Bench struct {
	Peer   peers.Peer
	Case   Case
	Scale  Scale
	Server host.Server
	Key    string // no other run uses this key

	addr    string // of the server or of the link to it
	workers []*host.Worker
	link    *host.Link
}

// Measure runs one case of a workload for one peer once.
func (w Workload) Measure(ctx context.Context, b *Bench) (Sample, error) {
	defer b.end()
	b.addr = b.Server.Addr()
	if b.Case.Delay > 0 {
		link, err := host.NewLink(b.addr, b.Case.Delay)
		if err != nil {
			return nil, err
		}
		b.link, b.addr = link, link.Addr()
	}
	sample, err := w.Run(ctx, b)
	if err != nil {
		err = fmt.Errorf("%s, %s, %s: %w", w.Name, b.Peer.Name, b.Case.Label, err)
	}
	return sample, err
}

func (b *Bench) end() {
	for _, w := range b.workers {
		w.Fire()
	}
	if b.link != nil {
		b.link.Close()
	}
}

// hire starts n workers and returns when all are up: a JVM takes long to get warm. Each may have up
// to waiters calls that wait for one lock.
func (b *Bench) hire(ctx context.Context, n, waiters int, lease time.Duration) ([]*host.Worker, error) {
	job := host.Job{Peer: b.Peer.Name, Config: peers.Config{
		Addr: b.addr, Lease: lease, Waiters: waiters, Direct: b.Server.Addr(), Warm: b.Scale.Warm,
	}}
	var hired []*host.Worker
	for range n {
		w, err := host.Hire(job)
		if err != nil {
			return nil, err
		}
		b.workers = append(b.workers, w)
		hired = append(hired, w)
	}
	return hired, inEach(hired, func(_ int, w *host.Worker) error {
		return w.Call(ctx, "Queued", None{}, new(int)) // any answer
	})
}

// prepare makes what must exist before the peer's lock can be taken.
func (b *Bench) prepare(ctx context.Context, name string) error {
	locker, err := b.Peer.Open(peers.Config{Addr: b.Server.Addr(), Lease: b.Scale.Long, Waiters: 1})
	if err != nil {
		return err
	}
	defer locker.Close()
	if p, ok := locker.(peers.Preparer); ok {
		return p.Prepare(ctx, name)
	}
	return nil
}

// queued waits until n calls of w are known to wait. If the peer does not tell, queued waits as
// long as this usually takes.
func (b *Bench) queued(ctx context.Context, w *host.Worker, n int) error {
	patience := b.Scale.Settle + time.Duration(n)*time.Millisecond
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var waiting int
		if err := w.Call(ctx, "Queued", None{}, &waiting); err != nil {
			return err
		}
		if waiting >= n {
			return nil
		}
	}
	return nil
}

// used returns what the server did during do.
func (b *Bench) used(ctx context.Context, do func() error) (host.Stats, error) {
	before, err := b.Server.Stats(ctx)
	if err != nil {
		return before, err
	}
	if err := do(); err != nil {
		return before, err
	}
	after, err := b.Server.Stats(ctx)
	return after.Minus(before), err
}

func (b *Bench) requests(s host.Stats) float64 { return float64(s.Requests(b.Peer.Requests)) }

// us and ms return durations as tables show them.
func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
