package workloads

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlock/locks/bench/host"
	"github.com/fairlock/locks/bench/peers"
)

const processes = 4 // the waiters are divided among these

// handover is workload 3.
var handover = Workload{
	Name:  "handover",
	Title: "3. Hand-overs on one key",
	About: "Waiters over 4 processes: each locks, unlocks at once and waits again. Waits are those of calls that were granted. A grant is out of " +
		"order if a call whose request had arrived before this one's was sent was still waiting; arrival is what the peer tells of, or 100 ms " +
		"after the call; etcd's is its own create revision. It is judged in a second phase, in which peers are asked to tell: that may cost them. " +
		"Jain's index is over whole rounds of as many grants as there are waiters; '-' where there was not even one.",
	Columns: []Column{
		{"rate", "grants/s"},
		{"p50", "wait p50 ms"},
		{"p99", "wait p99 ms"},
		{"requests", "requests/grant"},
		{"publishes", "publishes/grant"},
		{"server", "server CPU us/grant"},
		{"client", "client CPU us/grant"},
		{"out", "out of order %"},
		{"jain", "Jain"},
	},
	Plot: "rate",
	Cases: func(s Scale) []Case {
		var cases []Case
		for _, n := range s.Lines {
			cases = append(cases, Case{Label: strconv.Itoa(n) + " waiters", Size: n})
		}
		return cases
	},
	Run: runHandover,
	Goals: func(at Lookup) []Goal {
		const few, mid, many = "8 waiters", "64 waiters", "256 waiters"
		ownAt := func(label string) func() (float64, bool) { // the rate beside that at 64 waiters
			return func() (float64, bool) {
				x, ok := at(ours, label, "rate")
				y, ok2 := at(ours, mid, "rate")
				return x / max(y, 1), ok && ok2
			}
		}
		return []Goal{
			goal("at least 0.6x of the bare baton at 8 waiters", ratioIn(at, few, "rate", ours, batonFloor), atLeast(0.6)),
			goal("at least 1.5x of the bare baton at 64 waiters", ratioIn(at, mid, "rate", ours, batonFloor), atLeast(1.5)),
			goal("at least 1.5x of the bare baton at 256 waiters", ratioIn(at, many, "rate", ours, batonFloor), atLeast(1.5)),
			goal("at least 5x of Redisson's at 64 waiters", ratioIn(at, mid, "rate", ours, redissons), atLeast(5)),
			goal("at 1,000 waiters at least what it does at 64", ownAt("1000 waiters"), atLeast(1)),
			goal("at 10,000 waiters at least what it does at 64", ownAt("10000 waiters"), atLeast(1)),
			goal("the plain lock at least 1.5x of the fair one at 64 waiters", ratioIn(at, mid, "rate", "fairlock plain", ours), atLeast(1.5)),
			goal("at most 0.3 requests per grant at 64 waiters", func() (float64, bool) { return at(ours, mid, "requests") }, atMost(0.3)),
			goal("at most 1 publish per grant", func() (float64, bool) { return at(ours, mid, "publishes") }, atMost(1)),
			goal("no grant out of order (%)", func() (float64, bool) { return at(ours, mid, "out") }, atMost(0)),
			goal("Jain's index at least 0.99", func() (float64, bool) { return at(ours, mid, "jain") }, atLeast(0.99)),
		}
	},
}

// ContendArgs makes a worker contend for a key. The worker notes what happens from Start to End,
// and from End to Until also when its calls begin to wait.
type ContendArgs struct {
	Key               string
	First, Waiters    int // First is the number of the first waiter, Waiters how many there are
	Hold              time.Duration
	Start, End, Until time.Time
}

// ContendReply is the worker's log: the attempts that ended after Start or have not ended, and the
// processor time from Start to End.
type ContendReply struct {
	Attempts []Attempt
	CPU      time.Duration
}

func runHandover(ctx context.Context, b *Bench) (Sample, error) {
	log, err := b.contend(ctx, b.Case.Size, 0)
	if err != nil {
		return nil, err
	}
	var waits []int64
	for _, a := range log.measured {
		waits = append(waits, a.Granted-a.Began)
	}
	n := float64(len(waits))
	if n == 0 {
		return nil, errors.New("nobody was granted the lock")
	}
	sample := Sample{
		"rate": n / b.Scale.Contend.Seconds(),
		"p50":  ms(time.Duration(quantile(waits, 0.50))), "p99": ms(time.Duration(quantile(waits, 0.99))),
		"requests": b.requests(log.stats) / n, "publishes": float64(log.stats.Commands["publish"]) / n,
		"server": us(log.stats.CPU) / n, "client": us(log.cpu) / n,
	}
	if share, ok := log.outOfOrder(); ok {
		sample["out"] = share
	}
	if index, ok := jain(log.measured, b.Case.Size); ok {
		sample["jain"] = index
	}
	return sample, nil
}

// contention is the logs of all workers.
type contention struct {
	measured []Attempt // granted between Start and End
	told     []Attempt // begun after End, when the peer was asked to tell that it waits; also those never granted
	all      []Attempt // granted from Start on, or never
	stats    host.Stats
	cpu      time.Duration
}

func (b *Bench) contend(ctx context.Context, waiters int, hold time.Duration) (contention, error) {
	var log contention
	team := min(processes, waiters)
	hired, err := b.hire(ctx, team, (waiters+team-1)/team, b.Scale.Long)
	if err != nil {
		return log, err
	}
	if err := b.prepare(ctx, b.Key); err != nil {
		return log, err
	}
	warm := b.Scale.Contend/3 + 8*b.Case.Delay + time.Duration(waiters)*400*time.Microsecond
	args := ContendArgs{Key: b.Key, Hold: hold, Start: time.Now().Add(warm)}
	args.End = args.Start.Add(b.Scale.Contend)
	args.Until = args.End.Add(b.Scale.Contend / 2)
	replies := make([]ContendReply, team)
	failed := make(chan error, team)
	for i, w := range hired {
		args.Waiters = waiters / team
		if i < waiters%team {
			args.Waiters++
		}
		go func(args ContendArgs) { failed <- w.Call(ctx, "Contend", args, &replies[i]) }(args)
		args.First += args.Waiters
	}
	time.Sleep(time.Until(args.Start))
	log.stats, err = b.used(ctx, func() error {
		time.Sleep(time.Until(args.End))
		return nil
	})
	for range hired {
		err = errors.Join(err, <-failed)
	}
	for _, r := range replies {
		log.cpu += r.CPU
		log.sort(r.Attempts, args)
	}
	return log, err
}

func (c *contention) sort(attempts []Attempt, args ContendArgs) {
	for _, a := range attempts {
		if a.Granted > args.Until.UnixNano() {
			a.Granted = 0 // workers do not stop writing at the same instant
		}
		c.all = append(c.all, a)
		if a.Granted >= args.Start.UnixNano() && a.Granted < args.End.UnixNano() {
			c.measured = append(c.measured, a)
		}
		if a.Began >= args.End.UnixNano() || a.Granted == 0 && a.Began < args.Until.UnixNano() {
			c.told = append(c.told, a)
		}
	}
}

// outOfOrder returns the share of grants (%) that were out of order. It judges the second phase if
// the peer tells that it waits and there were grants in so short a time; otherwise it judges all.
func (c *contention) outOfOrder() (float64, bool) {
	out, of := 0, 0
	if slices.ContainsFunc(c.told, func(a Attempt) bool { return a.Queued != 0 }) {
		out, of = overtaken(c.told)
	}
	if of == 0 {
		out, of = overtaken(c.all)
	}
	return 100 * float64(out) / float64(max(of, 1)), of > 0
}

// diary has the attempts of one waiter. The last attempt may be under way.
type diary struct {
	mu       sync.Mutex // guards attempts
	attempts []Attempt
}

func (d *diary) note(change func(*Attempt)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.attempts[len(d.attempts)-1])
}

// Contend lets the waiters contend and answers at args.Until. The waiters go on: the process is
// killed afterwards.
func (w *Worker) Contend(args ContendArgs, r *ContendReply) error {
	if there, ok := w.locker.(peers.Contender); ok {
		return w.contendThere(there, args, r)
	}
	diaries := make([]diary, args.Waiters)
	failed := make(chan error, args.Waiters)
	var telling atomic.Bool
	for i := range diaries {
		go func() { failed <- w.contend(args, args.First+i, &diaries[i], &telling) }()
	}
	time.Sleep(time.Until(args.Start))
	cpu := host.CPU()
	time.Sleep(time.Until(args.End))
	r.CPU = host.CPU() - cpu
	telling.Store(true)
	select {
	case err := <-failed:
		return err
	case <-time.After(time.Until(args.Until.Add(args.Hold + 50*time.Millisecond))): // by then, all until Until is written down
	}
	for i := range diaries {
		diaries[i].mu.Lock()
		for _, a := range diaries[i].attempts {
			if a.Granted == 0 || a.Granted >= args.Start.UnixNano() {
				r.Attempts = append(r.Attempts, a)
			}
		}
		diaries[i].mu.Unlock()
	}
	return nil
}

// contendThere has the waiters contend in the peer's own process.
func (w *Worker) contendThere(peer peers.Contender, args ContendArgs, r *ContendReply) error {
	var turns []peers.Turn
	failed := make(chan error, 1)
	go func() {
		var err error
		turns, err = peer.Contend(peers.Contest{
			Name: args.Key, First: args.First, Callers: args.Waiters, Hold: args.Hold,
			Start: args.Start, End: args.End, Until: args.Until,
		})
		failed <- err
	}()
	var before, after time.Duration
	time.Sleep(time.Until(args.Start))
	err := w.CPU(None{}, &before)
	time.Sleep(time.Until(args.End))
	err = errors.Join(err, w.CPU(None{}, &after), <-failed)
	r.CPU = after - before
	for _, t := range turns {
		r.Attempts = append(r.Attempts, Attempt{
			Waiter: t.Caller, Began: t.Began, Queued: t.Queued, Granted: t.Granted, Released: t.Released,
		})
	}
	return err
}

func (w *Worker) contend(args ContendArgs, waiter int, d *diary, telling *atomic.Bool) error {
	now := func() int64 { return time.Now().UnixNano() }
	for {
		var queued func()
		if telling.Load() {
			queued = func() {
				d.note(func(a *Attempt) {
					if a.Queued == 0 {
						a.Queued = now()
					}
				})
			}
		}
		d.mu.Lock()
		d.attempts = append(d.attempts, Attempt{Waiter: waiter, Began: now()})
		d.mu.Unlock()
		lock, err := w.locker.Lock(context.Background(), args.Key, queued)
		if err != nil {
			return err
		}
		granted := now()
		if args.Hold > 0 {
			time.Sleep(args.Hold)
		}
		d.note(func(a *Attempt) { a.Granted, a.Released, a.Place = granted, now(), place(lock) })
		if err := lock.Unlock(context.Background()); err != nil {
			return err
		}
	}
}
