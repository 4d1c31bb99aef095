package lua

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// patience is how long a prompt request keeps its caller, if the client obeys deadlines. If a
// request is not answered in that time, there are no prompt requests for slowFor.
const (
	patience = 100 * time.Millisecond
	slowFor  = 5 * time.Second
)

// MostKept is how long a server that has fallen silent may keep a request that nothing else bounds.
const MostKept = 5 * time.Second

// timing is what is known of how soon the client's requests come back.
type timing struct {
	obeys   bool          // a context's deadline bounds reads and writes
	read    time.Duration // what else bounds reads; 0: nothing
	bound   time.Duration // what bounds a whole request, once it has a connection; 0: nothing
	limited bool          // there is a Limiter: nothing bounds how long it keeps a request
	dials   bool          // requests do not insist on an idle connection: for a caller that does not wait, a pool dials by chance
	slow    atomic.Int64  // until this time (Unix ns) the server is not expected to be prompt; 0: it is
}

func (t *timing) learn(rdb redis.UniversalClient) {
	switch client := rdb.(type) {
	case *redis.Client:
		if client != nil {
			o := client.Options()
			// A Limiter may wait, and is told of each request that finds no idle connection: no caller
			// sends by itself, nor takes an idle connection or none.
			t.limited = o.Limiter != nil
			t.goesBy(o.ContextTimeoutEnabled && !t.limited, o.ReadTimeout, o.WriteTimeout)
		}
	case *redis.ClusterClient:
		if client != nil {
			o := client.Options()
			t.goesBy(o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout)
		}
	}
}

// goesBy takes in the timeouts of a client. With one below zero the client sets no deadlines at
// all, not even those of an obeyed context. Zero is no timeout of the client's own.
func (t *timing) goesBy(contexts bool, read, write time.Duration) {
	t.obeys = contexts && read >= 0 && write >= 0
	t.read = max(0, read)
	if write > 0 {
		t.bound = t.read
	}
}

// unbounded reports whether a request may stay unanswered for ever.
func (t *timing) unbounded() bool { return t.bound == 0 || t.limited }

// Bound is the client's read timeout: how long the client waits for an answer at most. 0: there is
// none.
func (s *Server) Bound() time.Duration { return s.timing.read }

// took notes how long a request took that failed.
func (t *timing) took(d time.Duration, err error) {
	if d >= patience && look(err).timeout {
		t.late()
	}
}

// keeps notes that the server let a request wait for that time in vain. A caller may have less time
// than a prompt server takes.
func (t *timing) keeps(limit time.Duration) {
	if limit >= patience {
		t.late()
	}
}

// late notes that the server is not prompt.
func (t *timing) late() { t.slow.Store(time.Now().Add(slowFor).UnixNano()) }

// patient is a context that an obedient client obeys soon: within patience.
type patient struct{ context.Context }

// Deadline gives every read and write, as it begins, at most patience.
func (p patient) Deadline() (time.Time, bool) {
	end, ok := p.Context.Deadline()
	if at := time.Now().Add(patience); !ok || at.Before(end) {
		return at, true
	}
	return end, true
}

// prompt is a context for requests that take an idle connection or none, because nothing bounds
// how long a full pool, a dial and a handshake take. A pool looks at Done once before it takes a
// connection. It looks again only if it has to wait for a connection or dials.
type prompt struct {
	context.Context               // the caller's; go-redis may look at it even when the request has failed
	limit           time.Duration // how long to wait for requests that have to be sent elsewhere
	begun           time.Time     // when the first request was sent: all of them have limit; zero: none was
	looked          atomic.Int32  // how often, at Done
	obeyed          bool          // by the client: as soon as patient is
	awaits          bool          // the caller does not send, but waits for another goroutine, up to limit
}

// or is p, or ctx if there is no p.
func (p *prompt) or(ctx context.Context) context.Context {
	if p == nil {
		return ctx
	}
	return p
}

// starts notes that a request is sent, and reports whether it is the first: a script that the server
// does not have is sent twice.
func (p *prompt) starts() (first bool) {
	if first = p.begun.IsZero(); first {
		p.begun = time.Now()
	}
	return first
}

// left is what is left of the limit.
func (p *prompt) left() time.Duration { return p.limit - time.Since(p.begun) }

// unhurried is the context for a request that need not take an idle connection.
func (p *prompt) unhurried() context.Context {
	if p.obeyed {
		return patient{p.Context}
	}
	return p.Context
}

// outlasts reports whether the client obeys a deadline, and the caller's comes no sooner than at.
func (p *prompt) outlasts(at time.Time) bool {
	if p == nil || !p.obeyed {
		return false
	}
	end, ok := p.Context.Deadline()
	return !ok || !end.Before(at)
}

// forAll is p for requests of several callers. It ends at that time, and not with its caller.
func (p *prompt) forAll(at time.Time) *prompt {
	return &prompt{Context: until{context.WithoutCancel(p.Context), at}, obeyed: true}
}

// Deadline is the caller's, and at most patience away if the client obeys.
func (p *prompt) Deadline() (time.Time, bool) {
	if p.obeyed {
		return patient{p.Context}.Deadline()
	}
	return p.Context.Deadline()
}

var ended = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done is that of the caller's context. When the pool asks a second time, Done is closed.
func (p *prompt) Done() <-chan struct{} {
	if p.looked.Add(1) > 1 {
		return ended
	}
	return p.Context.Done()
}

// Err is errNotAtHand once Done has said so.
func (p *prompt) Err() error {
	if err := p.Context.Err(); err != nil || p.looked.Load() <= 1 {
		return err
	}
	return errNotAtHand
}

var errNotAtHand = errors.New("no idle connection is at hand")

// ErrKept is the error of a request that was left to itself: it may be executed yet.
var ErrKept = errors.New("no answer in the time that a request may keep its call")

// ErrCutShort is the error of a request whose goroutine did not come to its end: a hook of the
// client's called runtime.Goexit.
var ErrCutShort = errors.New("the request was cut short")

// elsewhere sends, in another goroutine, a request that could not be sent at once. It waits for the
// answer for as long as p has left, and only until the caller's context ends. Part of the limit may
// be gone: a connection's greeting went unanswered, or the server did not have the script. The
// caller's context may be the user's: it is not asked in the other goroutine.
func (s *Server) elsewhere(p *prompt, args []any, by sender) (any, error) {
	under, end := OwnContext(p.Context)
	kept := false // then the request is left to itself
	defer func() {
		if !kept {
			end()
		}
	}()
	if p.obeyed {
		under = patient{under}
	}
	reply, err := s.sendAside(p.Context, under, p.left(), args, by)
	if kept = Kept(err); kept {
		s.timing.keeps(p.limit)
	}
	return reply, err
}

// sendAside sends a request under a context in another goroutine. It waits for the answer no longer
// than limit, and only until ctx ends.
func (s *Server) sendAside(ctx, under context.Context, limit time.Duration, args []any, by sender) (any, error) {
	var reply any
	var failed error
	if err := s.aside(ctx, limit, func() { reply, failed = s.sendBy(under, nil, args, by) }); err != nil {
		return nil, err
	}
	return reply, failed
}

// aside runs f, which sends requests, in another goroutine. It waits for f no longer than limit, for
// MostKept once s.ends is closed, and only until ctx ends. On an error f may still run: what it
// writes must not be looked at.
func (s *Server) aside(ctx context.Context, limit time.Duration, f func()) error {
	done := make(chan error, 1)
	s.begin(func() {
		err := ErrCutShort
		defer func() { done <- err }()
		f()
		err = nil
	})
	until, ends := time.Now().Add(limit), s.ends
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return seen(ctx.Err())
		case <-ends: // replicas may have minutes
			ends = nil
			timer.Reset(min(time.Until(until), MostKept))
		case <-timer.C:
			s.timing.keeps(limit)
			return ErrKept
		}
	}
}

// begin runs f, which sends requests, in a goroutine that s.spawn owns. If nothing else bounds how
// long they take, it is owned only until a while after s.ends is closed: a Close would never end
// beside a server that fell silent.
func (s *Server) begin(f func()) {
	if !s.timing.unbounded() {
		s.spawn(f)
		return
	}
	over := make(chan struct{})
	s.spawn(func() {
		select {
		case <-over:
			return
		case <-s.ends:
		}
		timer := time.NewTimer(MostKept)
		defer timer.Stop()
		select {
		case <-over:
		case <-timer.C:
		}
	})
	go func() {
		defer close(over)
		f()
	}()
}

// bounded runs f, which sends requests. If nothing else bounds how long they take, it is aside's f.
func (s *Server) bounded(ctx context.Context, limit time.Duration, f func()) error {
	if s.timing.unbounded() {
		return s.aside(ctx, limit, f)
	}
	f()
	return nil
}

// Sends reports whether callers of Prompt would send their requests themselves. Else they would
// wait for another goroutine that does.
func (s *Server) Sends(ctx context.Context, limit time.Duration) bool {
	t := &s.timing
	return t.obeys || !t.limited && t.bound > 0 && t.bound <= limit && ctx.Done() == nil
}

// Prompt returns a Server whose requests may be sent from the caller's own goroutine, one after the
// other, under that ctx. That saves the time for which another goroutine would wait in the caller's
// stead: half a round trip on a busy machine. A request comes back
//
//   - at ctx's deadline, or after 100 ms of silence, if the client has ContextTimeoutEnabled;
//   - else, if ctx never ends, after the client's read timeout, if that is within limit and the
//     client has no Limiter;
//   - else at ctx's end: one other goroutine sends for all callers that are ready together;
//   - after limit, if no connection is idle and greeted: another goroutine gets one, and sends.
//
// Silence leaves open whether the request was executed. False means that requests are not joined,
// and the caller would be kept longer than ctx allows, or that the server has not been prompt
// lately: wait for the answer in another goroutine. So it is once the Locker is closed, too: what it
// then sends may be sent only once, and has the client's own time.
func (s *Server) Prompt(ctx context.Context, limit time.Duration) (*Server, bool) {
	t := &s.timing
	awaits := !s.Sends(ctx, limit)
	slow := t.slow.Load()
	if slow > 0 && time.Now().UnixNano() < slow || awaits && s.together.apart {
		return nil, false
	}
	select {
	case <-s.ends:
		return nil, false
	default:
	}
	all := &struct { // in one allocation
		server Server
		prompt prompt
		asked  asked
	}{asked: askedOf(ctx)}
	all.prompt = prompt{Context: &all.asked, obeyed: t.obeys, awaits: awaits, limit: limit}
	all.server = Server{s.deployment, &all.prompt, s.by}
	return &all.server, true
}

// Over is Over of the context of a prompt Server. The caller's own, which may be the user's, is not
// asked.
func (s *Server) Over() bool { return s.prompt != nil && Over(s.prompt.Context) }
