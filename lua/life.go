package lua

import (
	"context"
	"sync"
	"time"
)

// life is what ends requests that nobody waits for any more: see [Server.GiveUp].
type life struct {
	mu    sync.Mutex // guards what follows
	now   *spell     // of the requests that begin now
	older *spell     // of those that began before the latest GiveUp; nil: there was none
}

// spell is a part of a life, and the context of all requests that begin in it and do not end by
// themselves.
type spell struct {
	lasting
	end context.CancelFunc
}

func newSpell() *spell {
	s := new(spell)
	s.Context, s.end = context.WithCancel(context.Background())
	s.values = context.Background()
	return s
}

// lasting is a context that ends with its spell alone, and has the values of another.
type lasting struct {
	context.Context // of the spell
	values          context.Context
}

// Deadline is that of a patient context. Others that do not end keep nobody to theirs.
func (l *lasting) Deadline() (time.Time, bool) {
	if p, ok := l.values.(patient); ok {
		return p.Deadline()
	}
	return time.Time{}, false
}

// Value is that of the other context, but for what package context asks for.
func (l *lasting) Value(key any) any {
	if key == cancelerKey {
		return l.Context.Value(key)
	}
	return l.values.Value(key)
}

// lasts reports whether a request with that context may share a write: it does not end before those
// of others do.
func lasts(ctx context.Context) bool {
	_, ok := ctx.(*lasting)
	return ok || ctx.Done() == nil
}

// Mortal has GiveUp end requests. It is called before the first request goes out.
func (s *Server) Mortal() { s.life = &life{now: newSpell()} }

// GiveUp ends the requests to a Mortal server that began before the last GiveUp and wait for a
// connection: whoever sent them has ceased to hope for the server. A request that is sent already
// ends as it would anyway. So do those that prompt callers send themselves: they wait for no
// connection.
func (s *Server) GiveUp() {
	l := s.life
	l.mu.Lock()
	ends := l.older
	l.older, l.now = l.now, newSpell()
	l.mu.Unlock()
	if ends != nil {
		ends.end()
	}
}

// under returns the context for a request that is not prompt: it ends with ctx, or by GiveUp. over
// must be called when the request has ended.
func (s *Server) under(ctx context.Context) (own context.Context, over func()) {
	if s.life == nil {
		return ctx, func() {}
	}
	s.life.mu.Lock()
	now := s.life.now
	s.life.mu.Unlock()
	switch {
	case ctx == context.Background():
		return &now.lasting, func() {}
	case ctx.Done() == nil:
		return &lasting{now.Context, ctx}, func() {}
	}
	own, end := context.WithCancel(ctx)
	stop := context.AfterFunc(now.Context, end)
	return own, func() {
		stop()
		end()
	}
}
