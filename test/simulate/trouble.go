package simulate

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// Trouble is a set of what users, operators and strangers do, beside the faults of the network,
// the server and processes. A fault that one of them finds would hide what the others find: each
// can be left out.
type Trouble uint

// The kinds of trouble.
const (
	Callbacks Trouble = 1 << iota // OnQueued functions block, and call back into the Locker
	Panics                        // OnQueued functions panic and end their goroutines
	Tellers                       // Observers and loggers block, and call back into the Locker
	Crashes                       // Observers and loggers panic and end their goroutines
	Values                        // contexts of a type of the user's own ask a Lease for their values, and take their time
	Closes                        // Lockers are closed at the instant of a grant, twice at once, and by callbacks
	Outages                       // the network is away for minutes
	Leases                        // from 100 ms to hours in one run; in some seeds
	Answers                       // the server refuses: NOREPLICAS, MISCONF, BUSY, LOADING, OOM, NOPERM
	Proxies                       // a proxy answers in the server's place, who may have executed the request
	Torn                          // a message comes in two parts
	Forged                        // messages are sent by somebody with rights to one lock only
	Twice                         // two goroutines unlock one Lease at once
	Damaged                       // a stranger writes what he likes into the keys of one lock

	Everything = 1<<iota - 1
)

// names of the kinds, in their order.
var troubles = []string{
	"callbacks", "panics", "tellers", "crashes", "values", "closes", "outages", "leases", "answers", "proxies", "torn", "forged", "twice", "damaged",
}

// brings reports whether a run has this kind.
func (p *Plan) brings(t Trouble) bool { return p.Troubles&t != 0 && !p.Calm }

// ended is a context that has.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// heldFor is for how much real time a goroutine waits for a mutex that counts as held by whoever
// called us: a busy machine may not have run who has it, or who waits.
const heldFor = 5 * time.Second

// probe judges that the user's code is called with no mutex of the Locker held: whatever it does
// there would hold up everybody (1). If one is, the bubble's clock would stand still for good
// should the user's code wait.
func (c *client) probe(where string) bool {
	if free(c.w.plan.Real, func() { _ = c.locker.ForceUnlock(ended, "nothing") }) { // it asks nobody, and needs every mutex
		return true
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.referee.violated(1, "%s has called %s with a mutex held, so that nobody's trust ends", c.name, where)
	return false
}

// free reports whether f returns while no time passes in the bubble. clock shows the real time.
func free(clock *atomic.Int64, f func()) bool {
	var returned atomic.Bool
	go func() {
		f()
		returned.Store(true)
	}()
	for began := clock.Load(); !returned.Load(); runtime.Gosched() {
		if time.Duration(clock.Load()-began) > heldFor {
			return false
		}
	}
	return true
}

// pass is how a client's code spends time, if its process lives.
func (c *client) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.gone:
	}
}
