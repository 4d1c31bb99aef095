package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// hand is one goroutine of a worker. It takes locks, works and releases them.
type hand struct {
	*worker
	number int
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
	cancelled manner = "cancel" // until another goroutine cancels it
	crowded   manner = "max"    // only if few calls wait
	does      manner = "do"     // with Do
	nested    manner = "nested" // within a lease, which the call shares
)

// manners are dealt out with these weights.
var manners = []struct {
	manner
	weight int
}{{waits, 34}, {does, 10}, {tries, 16}, {patient, 14}, {limited, 10}, {cancelled, 10}, {crowded, 6}}

// owners are names that hands of all processes share. Several hands may hold a lock together in one
// such name.
var owners = []string{"saga-1", "saga-2"}

func (h *hand) work() {
	for !h.over() {
		h.once()
		h.pause(time.Millisecond)
	}
}

func (h *hand) pause(most time.Duration) { time.Sleep(time.Duration(h.random.Int64N(int64(most)))) }

// chance is true in so many of a hundred cases.
func (h *hand) chance(percent float64) bool { return h.random.Float64()*100 < percent }

func (h *hand) between(least, most time.Duration) time.Duration {
	return least + time.Duration(h.random.Int64N(int64(most-least)))
}

// plan is a call, and what to do once it has its lock.
type plan struct {
	lock    string
	locker  *locker
	how     manner
	options []fairlock.LockOption
	shared  bool          // several processes share the owner
	fixed   time.Duration // its lease, if the lease is not renewed
	limit   time.Duration // the call must return within this time; 0: there is no limit
	stay    time.Duration // how long it works
	sleeps  bool          // works all that time without a look at the lease
	antic   string        // how its OnQueued misbehaves; "": it does not
}

// plan decides what to do next.
func (h *hand) plan() plan {
	p := plan{lock: locks[min(h.random.IntN(len(locks)), h.random.IntN(len(locks)))], how: h.manner()}
	if h.chance(8) {
		p.lock = crew + h.Process
	}
	if h.chance(6) {
		p.shared = true
		p.options = append(p.options, fairlock.WithOwner(owners[h.random.IntN(len(owners))]))
	}
	switch {
	case p.lock == mixed && h.chance(60):
		p.fixed = h.between(100*time.Millisecond, mixedLease)
	case p.how == does && h.chance(15): // a goroutine that loses a lock in Do must not be inside another one
		p.fixed, p.sleeps = h.between(100*time.Millisecond, 200*time.Millisecond), true
	case h.chance(15):
		p.fixed = h.between(100*time.Millisecond, 600*time.Millisecond)
	}
	switch luck := h.random.Float64() * 100; {
	case p.sleeps:
		p.stay = p.fixed + p.fixed/2
	case luck < 4 && p.fixed > 0 && p.fixed < leaseTime:
		p.stay, p.sleeps = p.fixed+p.fixed/2, true
	case luck < 0.4: // for some renewals
		p.stay = h.between(400*time.Millisecond, 1200*time.Millisecond)
	case luck < 4 || strings.HasPrefix(p.lock, crew):
		p.stay = h.between(10*time.Millisecond, 80*time.Millisecond)
	default:
		p.stay = h.between(0, 2*time.Millisecond)
	}
	often := 5.0
	if strings.HasPrefix(p.lock, crew) {
		often = 15
	}
	if p.how != tries && h.chance(often) {
		p.antic = antics[h.random.IntN(len(antics))]
	}
	return h.finish(p)
}

// finish adds what follows from the rest of the plan.
func (h *hand) finish(p plan) plan {
	place := fairDesk
	switch {
	case isPlain(p.lock):
		place = plainDesk
	case h.number >= hands-1:
		place = steadyDesk
	}
	p.locker = h.desks[place].Load()
	if p.fixed > 0 {
		p.options = append(p.options, fairlock.LeaseFor(p.fixed))
	}
	switch p.how {
	case patient:
		p.limit = h.between(time.Millisecond, 400*time.Millisecond)
		p.options = append(p.options, fairlock.WaitAtMost(p.limit))
	case limited, cancelled:
		p.limit = h.between(time.Millisecond, 400*time.Millisecond)
	case crowded:
		p.options = append(p.options, fairlock.MaxWaiters(1+h.random.IntN(4)))
	default:
	}
	return p
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

// once asks for a lock. If it gets the lock, it works and releases it.
func (h *hand) once() { h.does(h.plan()) }

// does does what was planned.
func (h *hand) does(p plan) {
	op := h.call(p)
	p.options = append(p.options, h.note(op))
	if p.antic != "" {
		d := length(p.antic)
		if strings.HasPrefix(p.lock, crew) { // no other process waits for these locks
			d *= 2
		}
		p.options = append(p.options, h.onQueued(op, p.antic, d))
	}
	whole := func() {
		h.safely(op, func() {
			if p.how == does {
				h.do(op, p)
			} else if lease := h.asks(op, p); lease != nil {
				h.holds(lease.Context(), op, p, lease)
				h.release(op, lease)
			}
		})
	}
	if p.antic == exits {
		apart(whole)
	} else {
		whole() // in the goroutine of all other calls, which may be inside Do
	}
}

// note returns the note of a ticket: the process, and the call's number there.
func (h *hand) note(op int) fairlock.LockOption {
	return fairlock.Note(fmt.Sprintf("%s-%d", h.Process, op))
}

// asks makes the call and returns its lease, or nil.
func (h *hand) asks(op int, p plan) *fairlock.Lease {
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), number{}, op))
	defer cancel()
	switch p.how {
	case limited:
		ctx, cancel = context.WithTimeout(ctx, p.limit)
		defer cancel()
	case cancelled:
		defer time.AfterFunc(p.limit, cancel).Stop()
	default:
	}
	ask := p.locker.Lock
	if p.how == tries {
		ask = p.locker.TryLock
	}
	lease, err := ask(ctx, p.lock, p.options...)
	if err != nil {
		h.refused(op, p.lock, err)
		return nil
	}
	return lease
}

// call notes that a call is about to begin.
func (h *hand) call(p plan) int {
	op := int(h.ops.Add(1))
	h.journal.note(event{
		Kind: called, Op: op, Lock: p.lock, How: string(p.how), Limit: p.limit.Nanoseconds(), Locker: p.locker.number, Fixed: p.fixed > 0,
	})
	return op
}

func (h *hand) refused(op int, lock string, err error) {
	h.journal.note(event{Kind: refused, Op: op, Lock: lock, Why: why(err)})
	h.pause(40 * time.Millisecond) // so that a server that is away is not asked all the time
}

// do makes a call of Do.
func (h *hand) do(op int, p plan) {
	var held *fairlock.Lease
	ctx := context.WithValue(context.Background(), number{}, op)
	err := p.locker.Do(ctx, p.lock, func(ctx context.Context, lease *fairlock.Lease) error {
		held = lease
		h.holds(ctx, op, p, lease)
		h.ends(op, lease)
		return nil
	}, p.options...)
	if held == nil {
		h.refused(op, p.lock, err)
		return
	}
	h.journal.note(event{Kind: unlocked, Op: op, Why: why(err)})
}

// got notes a lease, and when its context ends and that of its work does.
func (h *hand) got(work context.Context, op int, lease *fairlock.Lease) {
	h.journal.note(event{Kind: got, Op: op, Lock: lease.Name(), Owner: lease.Owner(), Token: lease.Token(), Until: lease.Deadline().UnixNano()})
	context.AfterFunc(lease.Context(), func() {
		<-work.Done()
		at := time.Now().UnixNano() // read first: asking the lease may take as long as anything else does
		h.journal.note(event{Kind: over, At: at, Op: op, Until: lease.Deadline().UnixNano(), Why: why(context.Cause(lease.Context()))})
	})
}

// holds does what is planned under a lock.
func (h *hand) holds(work context.Context, op int, p plan, lease *fairlock.Lease) {
	h.got(work, op, lease)
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
		// If the lease is lost meanwhile, this is a call like any other.
		call := plan{lock: p.lock, locker: p.locker, how: nested, limit: time.Second}
		op := h.call(call)
		inner, err := p.locker.Lock(ctx, p.lock, h.note(op), fairlock.WaitAtMost(call.limit))
		if err != nil {
			h.refused(op, p.lock, err)
			continue
		}
		h.got(inner.Context(), op, inner)
		ops, leases = append(ops, op), append(leases, inner)
	}
	return ops, leases
}

// writes reads the counter, works for the time planned, and writes. It does not check meanwhile
// whether the lease is lost: a program that stands still does not either.
func (h *hand) writes(op int, p plan, lease *fairlock.Lease) {
	value, fresh := 0, true
	if !p.shared {
		value, fresh = h.ask(lease, "read", 0)
	}
	h.stays(op, p, lease)
	verb := "write"
	if p.shared {
		verb = "add"
	}
	if fresh {
		_, fresh = h.ask(lease, verb, value+1)
		h.journal.note(event{Kind: wrote, Op: op, Stale: !fresh, Trusted: !fresh && lease.Err() == nil})
	} else if lease.Err() == nil {
		// A refused read is as wrong as a refused write, for a call that has the lock.
		h.journal.note(event{Kind: wrote, Op: op, Stale: true, Trusted: true})
	}
}

// stays works for the time planned and notes for how long the lease is trusted.
func (h *hand) stays(op int, p plan, lease *fairlock.Lease) {
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
}

func (h *hand) ask(lease *fairlock.Lease, verb string, value int) (int, bool) {
	got, fresh, err := h.desk.ask(request{Verb: verb, Lock: lease.Name(), Process: h.Process, Token: lease.Token(), Value: value})
	if err != nil {
		panic(fmt.Sprintf("the resource, which nobody harms: %v", err))
	}
	return got, fresh
}

// ends notes that a lease is given up, and whether it was trusted until now. If it was not trusted,
// its context must end without an Unlock.
func (h *hand) ends(op int, lease *fairlock.Lease) {
	now := time.Now().UnixNano() // read first: a lease that is trusted afterwards was trusted then
	err := lease.Err()
	h.journal.note(event{Kind: unlock, At: now, Op: op, Trusted: err == nil, Why: why(err)})
	if err != nil {
		select {
		case <-lease.Done():
		case <-time.After(3 * time.Second):
		}
	}
}

func (h *hand) release(op int, lease *fairlock.Lease) {
	h.ends(op, lease)
	err := lease.Unlock(context.Background())
	h.journal.note(event{Kind: unlocked, Op: op, Why: why(err)})
}
