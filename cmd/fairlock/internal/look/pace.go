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
	requests []*stopwatch // one for each server
	shortly  time.Duration

	mu   sync.Mutex      // guards all below
	past []time.Duration // what the last looks took
}

// NewPace returns a Pace that measures what goes out to these servers. The busiest counts. Looks
// are at least shortly apart. Nothing may have been sent to a cluster yet: it makes its nodes'
// clients as it needs them.
func NewPace(shortly time.Duration, servers ...redis.UniversalClient) *Pace {
	p := &Pace{shortly: shortly}
	for _, rdb := range servers {
		w := &stopwatch{rdb: rdb}
		if cluster, several := rdb.(*redis.ClusterClient); several { // its hooks do not see a SCAN of a node
			cluster.OnNewNode(func(node *redis.Client) { node.AddHook(w) })
		} else {
			rdb.AddHook(w)
		}
		p.requests = append(p.requests, w)
	}
	return p
}

// Another returns a Pace for looks at something else, that do not overlap with those of p.
func (p *Pace) Another() *Pace { return &Pace{requests: p.requests, shortly: p.shortly} }

// patience is how long a look waits for the ping of one server of several.
const patience = 250 * time.Millisecond

// Begin begins a look. Its pings measure a bare round trip to each server.
func (p *Pace) Begin(ctx context.Context) {
	if len(p.requests) > 1 {
		brief, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		ctx = brief
	}
	var all sync.WaitGroup
	for _, w := range p.requests {
		all.Go(func() { w.begin(ctx) })
	}
	all.Wait()
}

// End ends a look. It returns how long a look keeps the server busy at most, and how long to leave
// the server alone now.
func (p *Pace) End() (spent, rest time.Duration) {
	var took time.Duration
	for _, w := range p.requests {
		took = max(took, w.beyond())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.past = append(p.past, took)
	p.past = p.past[max(0, len(p.past)-least):]
	spent = slices.Min(p.past)
	if len(p.past) < least {
		return spent, max(p.shortly, idle*spent/10)
	}
	return spent, max(p.shortly, idle*spent)
}

// stopwatch measures requests, as a hook of go-redis.
type stopwatch struct {
	rdb redis.UniversalClient

	mu    sync.Mutex // guards all below
	bare  time.Duration
	spent time.Duration // since Begin
	sent  int
}

func (s *stopwatch) begin(ctx context.Context) {
	start := time.Now()
	err := s.rdb.Ping(ctx).Err()
	took := time.Since(start)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && (s.bare == 0 || took < s.bare) {
		s.bare = took
	}
	s.spent, s.sent = 0, 0
}

// beyond returns what the requests since Begin took beyond bare round trips.
func (s *stopwatch) beyond() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.spent-time.Duration(s.sent)*s.bare)
}

func (s *stopwatch) note(start time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent += time.Since(start)
	s.sent++
}

// DialHook measures nothing: connections are made once.
func (*stopwatch) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook measures a request.
func (s *stopwatch) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		defer s.note(time.Now())
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook measures several requests that go out together.
func (s *stopwatch) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer s.note(time.Now())
		return next(ctx, cmds)
	}
}
