package stage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// Pacer is a hook of a go-redis client that is called in place of each command but the greetings.
// It starts each at an instant of its own: otherwise goroutines that wake up together would reach
// for the pool in a random order. It also does what users' hooks do.
type Pacer func(cmd redis.Cmder, args []string, send func() error) error

// DialHook does nothing.
func (p Pacer) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook calls p.
func (p Pacer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "hello" { // a greeting takes no time, and a dial holds a mutex meanwhile
			return next(ctx, cmd)
		}
		args := make([]string, len(cmd.Args()))
		for i, arg := range cmd.Args() {
			args[i] = fmt.Sprint(arg)
		}
		return p(cmd, args, func() error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook does nothing.
func (p Pacer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Deed is what the user's hook does at one time: before a request is sent, or once it is answered.
type Deed struct {
	Takes        time.Duration
	Ends, panics bool
}

// SlowestHook is how long a hook takes at most.
const SlowestHook = 3 * time.Second

// Deeds draws what a hook does to a request that it does something to.
func Deeds(r *rand.Rand, takes, ends bool) (before, after Deed) {
	do := &before
	if r.IntN(2) == 0 {
		do = &after
	}
	do.Ends, do.panics = ends && r.IntN(2) == 0, r.IntN(2) == 0
	if takes && (r.IntN(2) == 0 || !do.Ends) {
		do.Takes = Span(r, time.Millisecond, SlowestHook)
	}
	return before, after
}

// End ends the goroutine if that is the deed, or panics in it if it is a user's, once it has told
// so. It ends only goroutines in which somebody bears that: a panic in one of the library's would
// end the process, as anywhere.
func (do *Deed) End(tell func(kind string)) {
	if !do.Ends {
		return
	}
	if owner := Whose(); owner == Users || owner == Librarys {
		Crash("hook", owner == Users && do.panics, tell)
	}
}
