package lua

import (
	"context"
	"runtime"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/batch"
)

// mostTogether is how many requests share a write: with more, the first would wait too long for its
// answer.
const mostTogether = 32

// together lets requests that are ready at the same moment share a write and a read. These are the
// greater part of what requests cost on both sides.
type together struct {
	rdb   redis.UniversalClient
	apart bool // requests go to several servers, and a pipeline would be repeated

	mu     sync.Mutex // guards what follows; nothing is sent under it
	prompt sharing
	others sharing // requests that are not prompt
}

type sharing = batch.Batcher[redis.Cmder]

// process sends a request. The error is also the request's own.
func (t *together) process(ctx context.Context, p *prompt, request redis.Cmder) error {
	kind := &t.others
	if p != nil {
		ctx, kind = p.Context, &t.prompt
	}
	ends := ctx.Done() != nil
	ctx = p.or(ctx)
	if t.apart || ends { // with a context that can end, a request must not hold up others, nor they it
		return t.rdb.Process(ctx, request)
	}
	b, sends := t.begin(kind, request)
	if !sends {
		<-b.Answered
		return request.Err()
	}
	defer t.end(kind)
	if b == nil {
		return t.rdb.Process(ctx, request)
	}
	defer close(b.Answered)
	runtime.Gosched()
	return send(ctx, t.rdb, t.close(kind, b))
}

func (t *together) begin(kind *sharing, request redis.Cmder) (b *batch.Batch[redis.Cmder], sends bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return kind.Begin(request, true, mostTogether)
}

func (t *together) close(kind *sharing, b *batch.Batch[redis.Cmder]) []redis.Cmder {
	t.mu.Lock()
	defer t.mu.Unlock()
	return kind.Close(b)
}

func (t *together) end(kind *sharing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kind.End()
}

// send sends all requests in one write, and returns the error of the first.
func send(ctx context.Context, rdb redis.UniversalClient, all []redis.Cmder) error {
	if len(all) == 1 {
		return rdb.Process(ctx, all[0])
	}
	pipe := rdb.Pipeline()
	for _, request := range all {
		_ = pipe.Process(ctx, request)
	}
	_, _ = pipe.Exec(ctx) // each request has its own error
	return all[0].Err()
}
