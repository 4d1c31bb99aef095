package simulate

import (
	"context"
	"time"

	"github.com/fairlock/locks/test/simulate/stage"
)

// Trouble is a set of things that users, operators and strangers do. The faults of the network, the
// server and processes come on top. Each kind can be left out, because a fault that one kind finds
// would hide what the others find.
type Trouble uint

// The kinds of trouble.
const (
	Callbacks Trouble = 1 << iota // OnQueued functions block, and call back into the Locker
	Panics                        // OnQueued functions and contexts panic and end their goroutines
	Tellers                       // Observers and loggers block, and call back into the Locker
	Crashes                       // Observers and loggers panic and end their goroutines
	// Contexts of the user's own type ask a Lease for their values, and take their time.
	Values
	Closes      // Lockers are closed at the instant of a grant, twice at once, and by callbacks
	Outages     // the network is away for minutes
	Leases      // leases from 100 ms to hours in one run; in some seeds
	Answers     // the server refuses: NOREPLICAS, MISCONF, BUSY, LOADING, OOM, NOPERM
	Proxies     // a proxy answers in the server's place, and may have executed the request
	Torn        // a message comes in two parts
	Forged      // somebody with rights to one lock only sends messages
	Twice       // two goroutines unlock one Lease at once
	Damaged     // a stranger writes anything into the keys of one lock
	Endless     // clients have no timeouts: a request waits for as long as its connection lives
	Hooks       // hooks of a client's take their time, before a request is sent or once it is answered
	HookCrashes // such hooks panic and end their goroutines
	Several     // calls for several locks at once; in some seeds

	Everything = 1<<iota - 1
)

// troubles are the names of the kinds, in their order.
var troubles = []string{
	"callbacks", "panics", "tellers", "crashes", "values", "closes", "outages", "leases", "answers", "proxies", "torn", "forged", "twice", "damaged", "endless", "hooks", "hookcrashes", "several",
}

// brings reports whether a run has this kind of trouble.
func (p *Plan) brings(t Trouble) bool { return p.Troubles&t != 0 && !p.Calm }

// ended is a context that has ended.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// heldFor is for how much real time a goroutine must wait for a mutex before probe takes the mutex
// as held by the caller. It is long because a busy machine may run neither the mutex's holder nor
// the waiter.
const (
	heldFor = 5 * time.Second
	tick    = 100 * time.Millisecond // of the real time
)

// probe judges that the Locker holds no mutex while it calls the user's code. Whatever that code
// does would hold up everybody else (1). And if that code waited, the bubble's clock would stand
// still for good.
func (c *client) probe(where string) bool {
	// This call asks no server, but needs every mutex.
	if free(c.w.plan.Real, func() { _ = c.locker.ForceUnlock(ended, "nothing") }) {
		return true
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.referee.violated(1, "%s has called %s with a mutex held, so that nobody's trust ends", c.name, where)
	return false
}

// free reports whether f returns while no time passes in the bubble. Who waits for a channel of
// outside stops the bubble's clock.
func free(ticks <-chan struct{}, f func()) bool {
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		f()
	}()
	for range heldFor / tick {
		select {
		case <-returned:
			return true
		case <-ticks:
		}
	}
	return false
}

// pass lets a client's code spend time, as long as its process lives.
func (c *client) pass(d time.Duration) { stage.Pass(d, nil, c.gone) }
