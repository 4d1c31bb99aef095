// Package look is for those who only watch locks. It says how often to look, often enough for
// people and seldom enough for the server; and it has words that do no harm to a terminal.
package look

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// idle is how long to leave the server alone after a look, as a multiple of the time that the look
// kept the server busy. Looking then takes a two hundredth of a core. What the server spends on its
// sockets comes on top, and cannot be measured from here.
const idle = 200

// least is a number of looks: the fastest of that many counts. Each look is the same work for the
// server, and anything else that delays a look only adds to its time. Before there have been that
// many looks, a tenth of the rest is enough: the first look also has to connect.
const least = 5

// Pace says when to look again. It takes as the server's work on a request the time beyond a bare
// round trip. So its errors are in the server's favour.
type Pace struct {
	rdb     redis.UniversalClient
	shortly time.Duration

	mu    sync.Mutex // guards all below
	bare  time.Duration
	spent time.Duration // since Begin
	sent  int
	past  []time.Duration // what the last looks took
}

// NewPace returns a Pace that measures what goes out over rdb. Looks are at least shortly apart.
func NewPace(rdb redis.UniversalClient, shortly time.Duration) *Pace {
	p := &Pace{rdb: rdb, shortly: shortly}
	rdb.AddHook(stopwatch{p})
	return p
}

// Begin begins a look. Its ping measures a bare round trip.
func (p *Pace) Begin(ctx context.Context) {
	start := time.Now()
	err := p.rdb.Ping(ctx).Err()
	took := time.Since(start)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && (p.bare == 0 || took < p.bare) {
		p.bare = took
	}
	p.spent, p.sent = 0, 0
}

// End ends a look. It returns how long a look keeps the server busy at most, and how long to leave
// the server alone now.
func (p *Pace) End() (spent, rest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.past = append(p.past, max(0, p.spent-time.Duration(p.sent)*p.bare))
	p.past = p.past[max(0, len(p.past)-least):]
	spent = slices.Min(p.past)
	if len(p.past) < least {
		return spent, max(p.shortly, idle*spent/10)
	}
	return spent, max(p.shortly, idle*spent)
}

func (p *Pace) note(start time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spent += time.Since(start)
	p.sent++
}

// stopwatch is the Pace as a hook of go-redis.
type stopwatch struct{ *Pace }

// DialHook measures nothing: connections are made once.
func (stopwatch) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook measures a request.
func (s stopwatch) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		defer s.note(time.Now())
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook measures several requests that go out together.
func (s stopwatch) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer s.note(time.Now())
		return next(ctx, cmds)
	}
}
