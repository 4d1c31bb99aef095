package lua

import (
	"context"
	"runtime"
	"sync"
	"time"

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

// process sends a request. The error is also the request's own. A request whose context can end
// must not hold up others, nor they it. So it shares only if the client obeys a deadline that comes
// before the end of each of their contexts.
func (t *together) process(ctx context.Context, p *prompt, request redis.Cmder) error {
	kind := &t.others
	if p != nil {
		ctx, kind = p.Context, &t.prompt
	}
	var soon time.Time
	if p != nil && p.obeyed {
		soon = time.Now().Add(patience)
	}
	if t.apart || !lasts(ctx) && !p.outlasts(soon) {
		return process(p.or(ctx), t.rdb, request)
	}
	if err := ctx.Err(); err != nil {
		request.SetErr(err)
		return err
	}
	b, sends := t.begin(kind, request, false)
	if !sends {
		<-b.Answered
		return request.Err()
	}
	defer t.end(kind)
	if b == nil {
		return process(p.or(ctx), t.rdb, request)
	}
	defer close(b.Answered)
	all := t.gather(kind, b)
	if p != nil && p.obeyed && len(all) > 1 {
		p = p.forAll(soon)
	}
	return send(p.or(ctx), t.rdb, all)
}

// await lets another goroutine send a request, with all that are ready at the same moment: one
// goroutine for many callers. It waits for the answer for as long as the prompt has left, and
// only until the caller's context ends.
func (s *Server) await(p *prompt, args []any) (any, error) {
	t, ctx := s.together, context.WithoutCancel(p.Context)
	request := newOnce(ctx, args)
	b, sends := t.begin(&t.others, request, true)
	if sends {
		s.begin(func() {
			under, over := s.under(ctx)
			defer over()
			start := time.Now()
			err := t.lead(under, b)
			s.timing.took(time.Since(start), err) // asks what may be a hook's own error
		})
	}
	timer := time.NewTimer(p.left())
	defer timer.Stop()
	select {
	case <-b.Answered:
		return request.Result()
	case <-p.Context.Done():
		return nil, seen(p.Context.Err())
	case <-timer.C:
		s.timing.keeps(p.limit)
		return nil, ErrKept
	}
}

// lead sends the requests of a batch.
func (t *together) lead(ctx context.Context, b *batch.Batch[redis.Cmder]) error {
	defer t.end(&t.others)
	defer close(b.Answered)
	return send(ctx, t.rdb, t.gather(&t.others, b))
}

func (t *together) begin(
	kind *sharing, request redis.Cmder, waits bool,
) (b *batch.Batch[redis.Cmder], sends bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return kind.Begin(request, true, waits, mostTogether)
}

// gather lets what is runnable add its requests, and returns all of the batch.
func (t *together) gather(kind *sharing, b *batch.Batch[redis.Cmder]) []redis.Cmder {
	runtime.Gosched()
	t.mu.Lock()
	defer t.mu.Unlock()
	return kind.Close(b)
}

func (t *together) end(kind *sharing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kind.End()
}

// process sends a request and waits for its answer. An AutoPipeliner of go-redis may have only
// noted the request when Process returns; its error waits.
func process(ctx context.Context, rdb redis.UniversalClient, request redis.Cmder) error {
	if err := rdb.Process(ctx, request); err != nil {
		return err
	}
	return request.Err()
}

// send sends all requests in one write, and returns the error of the first.
func send(ctx context.Context, rdb redis.UniversalClient, all []redis.Cmder) error {
	if len(all) == 1 {
		return process(ctx, rdb, all[0])
	}
	pipe := rdb.Pipeline()
	for _, request := range all {
		_ = pipe.Process(ctx, request)
	}
	_ = exec(ctx, pipe) // each request has its own error
	return all[0].Err()
}
