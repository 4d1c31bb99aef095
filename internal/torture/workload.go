package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// hand is one goroutine of a worker, which takes locks, works and releases them.
type hand struct {
	*worker
	random *rand.Rand
	desk   *desk
}

// manner is how a call asks for a lock.
type manner string

const (
	waits     manner = "lock"   // as long as it takes
	tries     manner = "try"    // once
	patient   manner = "atmost" // for some time
	limited   manner = "ctx"    // until its context's deadline
	cancelled manner = "cancel" // until somebody cancels it
	crowded   manner = "max"    // only if few do
	does      manner = "do"     // with Do
	nested    manner = "nested" // within a lease, which it shares
)

// manners are dealt out with these weights.
var manners = []struct {
	manner
	weight int
}{{waits, 34}, {does, 10}, {tries, 16}, {patient, 14}, {limited, 10}, {cancelled, 10}, {crowded, 6}}

// owners are names that hands of all processes share: several may hold a lock in one's name together.
var owners = []string{"saga-1", "saga-2"}

func (h *hand) work() {
	for !h.over() {
		h.once()
		h.pause(time.Millisecond)
	}
}

func (h *hand) over() bool {
	select {
	case <-h.quit:
		return true
	default:
		return false
	}
}

func (h *hand) pause(most time.Duration) { time.Sleep(time.Duration(h.random.Int64N(int64(most)))) }

// chance is true so many times in a hundred.
func (h *hand) chance(percent float64) bool { return h.random.Float64()*100 < percent }

func (h *hand) between(least, most time.Duration) time.Duration {
	return least + time.Duration(h.random.Int64N(int64(most-least)))
}

// plan is what becomes of a call once it has its lock.
type plan struct {
	lock   string
	how    manner
	shared bool          // the owner is one of several processes
	limit  time.Duration // in which the call is to return; 0: there is none
	stay   time.Duration // how long it works
	sleeps bool          // all the time, without a look at its lease
}

// plan decides what to do next.
func (h *hand) plan() (plan, []fairlock.LockOption) {
	p := plan{lock: locks[min(h.random.IntN(len(locks)), h.random.IntN(len(locks)))], how: h.manner()}
	options := []fairlock.LockOption{fairlock.Note(h.Process)}
	if h.chance(6) {
		p.shared = true
		options = append(options, fairlock.WithOwner(owners[h.random.IntN(len(owners))]))
	}
	fixed := time.Duration(0)
	if h.chance(15) {
		fixed = h.between(150*time.Millisecond, 600*time.Millisecond)
		options = append(options, fairlock.LeaseFor(fixed))
	}
	switch luck := h.random.Float64() * 100; {
	case luck < 4 && fixed > 0:
		p.stay, p.sleeps = fixed+fixed/2, true
	case luck < 0.4: // for some renewals
		p.stay = h.between(400*time.Millisecond, 1200*time.Millisecond)
	case luck < 4:
		p.stay = h.between(10*time.Millisecond, 80*time.Millisecond)
	default:
		p.stay = h.between(0, 2*time.Millisecond)
	}
	switch p.how {
	case patient:
		p.limit = h.between(time.Millisecond, 400*time.Millisecond)
		options = append(options, fairlock.WaitAtMost(p.limit))
	case limited, cancelled:
		p.limit = h.between(time.Millisecond, 400*time.Millisecond)
	case crowded:
		options = append(options, fairlock.MaxWaiters(1+h.random.IntN(4)))
	default:
	}
	return p, options
}

func (h *hand) manner() manner {
	sum := 0
	for _, m := range manners {
		sum += m.weight
	}
	at := h.random.IntN(sum)
	for _, m := range manners {
		if at -= m.weight; at < 0 {
			return m.manner
		}
	}
	return waits
}

// once asks for a lock and, if it gets it, works and releases it.
func (h *hand) once() {
	p, options := h.plan()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch p.how {
	case limited:
		ctx, cancel = context.WithTimeout(ctx, p.limit)
		defer cancel()
	case cancelled:
		defer time.AfterFunc(p.limit, cancel).Stop()
	default:
	}
	op := h.call(p.lock, p.how, p.limit)
	var lease *fairlock.Lease
	var err error
	switch p.how {
	case does:
		h.do(op, p, options)
		return
	case tries:
		lease, err = h.of(p.lock).TryLock(ctx, p.lock, options...)
	default:
		lease, err = h.of(p.lock).Lock(ctx, p.lock, options...)
	}
	if err != nil {
		h.refused(op, p.lock, err)
		return
	}
	h.holds(op, p, lease)
	h.release(op, lease)
}

// call notes that a call begins, before it does.
func (h *hand) call(lock string, how manner, limit time.Duration) int {
	op := int(h.ops.Add(1))
	h.journal.note(event{Kind: called, Op: op, Lock: lock, How: string(how), Limit: limit.Nanoseconds()})
	return op
}

func (h *hand) refused(op int, lock string, err error) {
	h.journal.note(event{Kind: refused, Op: op, Lock: lock, Why: why(err)})
	h.pause(20 * time.Millisecond) // a server that is away is not asked all the time
}

// do is once with Do.
func (h *hand) do(op int, p plan, options []fairlock.LockOption) {
	var held *fairlock.Lease
	err := h.of(p.lock).Do(context.Background(), p.lock, func(_ context.Context, lease *fairlock.Lease) error {
		held = lease
		h.holds(op, p, lease)
		h.ends(op, lease)
		return nil
	}, options...)
	if held == nil {
		h.refused(op, p.lock, err)
		return
	}
	h.journal.note(event{Kind: unlocked, Op: op, Why: why(err)})
}

// got notes a lease and watches over it.
func (h *hand) got(op int, lease *fairlock.Lease) {
	h.journal.note(event{Kind: got, Op: op, Lock: lease.Name(), Owner: lease.Owner(), Token: lease.Token(), Until: lease.Deadline().UnixNano()})
	context.AfterFunc(lease.Context(), func() {
		if why(context.Cause(lease.Context())) == whyLost {
			h.journal.note(event{Kind: lost, Op: op})
		}
	})
}

// holds is what is done under a lock.
func (h *hand) holds(op int, p plan, lease *fairlock.Lease) {
	h.got(op, lease)
	var inner []*fairlock.Lease
	var inners []int
	if !p.shared && h.chance(20) {
		inners, inner = h.nest(p, lease)
	}
	h.writes(op, p, lease)
	h.random.Shuffle(len(inner), func(i, j int) {
		inner[i], inner[j] = inner[j], inner[i]
		inners[i], inners[j] = inners[j], inners[i]
	})
	for i, l := range inner {
		h.release(inners[i], l)
	}
}

// nest takes the lock once or twice more, by the lease's context or, within Do, by the goroutine.
func (h *hand) nest(p plan, lease *fairlock.Lease) (ops []int, leases []*fairlock.Lease) {
	ctx := lease.Context()
	if p.how == does {
		ctx = context.Background()
	}
	for range 1 + h.random.IntN(2) {
		op := h.call(p.lock, nested, 0)
		// If the lease is lost meanwhile, this is a call as any other.
		inner, err := h.of(p.lock).Lock(ctx, p.lock, fairlock.Note(h.Process), fairlock.WaitAtMost(time.Second))
		if err != nil {
			h.refused(op, p.lock, err)
			continue
		}
		h.got(op, inner)
		ops, leases = append(ops, op), append(leases, inner)
	}
	return ops, leases
}

// writes reads the counter, works for the time planned, and writes. It does not look whether the lease is lost meanwhile: a
// program that stands still does not either.
func (h *hand) writes(op int, p plan, lease *fairlock.Lease) {
	value, fresh := 0, true
	if !p.shared {
		value, fresh = h.ask(lease, "read", 0)
	}
	until := lease.Deadline()
	for left := p.stay; left > 0; left -= 50 * time.Millisecond {
		if p.sleeps {
			time.Sleep(left)
			break
		}
		time.Sleep(min(left, 50*time.Millisecond))
		if now := lease.Deadline(); now.After(until) && lease.Err() == nil {
			until = now
			h.journal.note(event{Kind: kept, Op: op, Until: until.UnixNano()})
		}
	}
	verb := "write"
	if p.shared {
		verb = "add"
	}
	if fresh {
		_, fresh = h.ask(lease, verb, value+1)
		h.journal.note(event{Kind: wrote, Op: op, Stale: !fresh, Trusted: !fresh && lease.Err() == nil})
	} else if lease.Err() == nil { // a read that is refused to somebody who has the lock is as wrong as a write
		h.journal.note(event{Kind: wrote, Op: op, Stale: true, Trusted: true})
	}
}

func (h *hand) ask(lease *fairlock.Lease, verb string, value int) (int, bool) {
	got, fresh, err := h.desk.ask(request{Verb: verb, Lock: lease.Name(), Process: h.Process, Token: lease.Token(), Value: value})
	if err != nil {
		panic(fmt.Sprintf("the resource, which nobody harms: %v", err))
	}
	return got, fresh
}

// ends notes that a lease is given up, and whether it was trusted until now.
func (h *hand) ends(op int, lease *fairlock.Lease) {
	now := time.Now().UnixNano() // first: what is trusted afterwards was trusted then
	h.journal.note(event{Kind: unlock, At: now, Op: op, Trusted: lease.Err() == nil})
}

func (h *hand) release(op int, lease *fairlock.Lease) {
	h.ends(op, lease)
	err := lease.Unlock(context.Background())
	h.journal.note(event{Kind: unlocked, Op: op, Why: why(err)})
}
