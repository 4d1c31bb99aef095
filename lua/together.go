package lua

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// most is how many requests share a write: with more, the first would wait too long for its answer.
const most = 32

// together has requests that are ready at the same moment share a write and a read, which are the greater part of what
// they cost on both sides. None waits for company: one that finds others under way lets the goroutines run first that can
// run now, and takes along what they ask.
type together struct {
	rdb      redis.UniversalClient
	apart    bool         // requests go to several servers, and a pipeline would be repeated
	underway atomic.Int32 // requests

	mu   sync.Mutex // guards all below
	open *group     // which the next one joins
}

// group is what shares a write. The goroutine of its first request sends it.
type group struct {
	hasty    bool // all want a prompt answer
	requests []redis.Cmder
	answered chan struct{} // closed when all are
}

// process sends a request. The error is also the request's own.
func (t *together) process(ctx context.Context, request redis.Cmder) error {
	defer t.underway.Add(-1)
	p, hasty := ctx.(*prompt)
	own := ctx
	if hasty {
		own = p.Context
	}
	if t.underway.Add(1) == 1 || t.apart || own.Done() != nil { // one whose context can end must not keep others, nor they it
		return t.rdb.Process(ctx, request)
	}
	g, first := t.join(request, hasty)
	if !first {
		<-g.answered
		return request.Err()
	}
	defer close(g.answered)
	runtime.Gosched()
	return t.leave(g).send(ctx, t.rdb)
}

// join has a request share the next write; the first to join has to send it.
func (t *together) join(request redis.Cmder, hasty bool) (g *group, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g = t.open; g == nil || g.hasty != hasty {
		t.open = &group{hasty: hasty, requests: []redis.Cmder{request}, answered: make(chan struct{})}
		return t.open, true
	}
	if g.requests = append(g.requests, request); len(g.requests) == most {
		t.open = nil
	}
	return g, false
}

// leave closes g to others.
func (t *together) leave(g *group) *group {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == g {
		t.open = nil
	}
	return g
}

// send returns the error of the first.
func (g *group) send(ctx context.Context, rdb redis.UniversalClient) error {
	first := g.requests[0]
	if len(g.requests) == 1 {
		return rdb.Process(ctx, first)
	}
	pipe := rdb.Pipeline()
	for _, request := range g.requests {
		_ = pipe.Process(ctx, request)
	}
	_, _ = pipe.Exec(ctx) // each has its own
	return first.Err()
}
