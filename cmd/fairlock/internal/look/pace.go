// Package look is how locks are looked at by those who only watch: often enough for people, seldom
// enough for the server, and in words that no terminal trips over.
package look

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// idle is for how many times as long as a look kept the server busy it is left alone afterwards. To
// look then takes a two hundredth of a core; what the server spends on its sockets, unseen from
// here, is some more.
const idle = 200

// least is of how many looks the one counts that took least: each is the same work for the server,
// and whatever else keeps them up only adds to it. Until there are so many, a tenth of the rest is
// enough: the first look has connections to make.
const least = 5

// Pace says when to look again. It takes as the server's work on a request what that took beyond
// the bare way there and back, so it errs to the server's advantage.
type Pace struct {
	rdb     redis.UniversalClient
	shortly time.Duration

	mu    sync.Mutex // guards all below
	bare  time.Duration
	spent time.Duration // since Begin
	sent  int
	past  []time.Duration // what the last looks took
}

// NewPace measures what goes out over rdb, for looks that are at least so far apart.
func NewPace(rdb redis.UniversalClient, shortly time.Duration) *Pace {
	p := &Pace{rdb: rdb, shortly: shortly}
	rdb.AddHook(stopwatch{p})
	return p
}

// Begin begins a look. Its ping finds out what the bare way takes.
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

// End ends a look: how long one keeps the server busy at most, and how long to leave it alone now.
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

// stopwatch is the Pace as go-redis sees it.
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

// ProcessPipelineHook measures several that go out together.
func (s stopwatch) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer s.note(time.Now())
		return next(ctx, cmds)
	}
}
