package lua

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Joint lets several callers send a request each in one write, as soon as each of them has one or
// has said that it will have none. So several locks cost the time of one.
type Joint struct {
	server *deployment
	rdb    redis.UniversalClient // the one server that keeps all the locks

	mu       sync.Mutex // guards what follows; nothing is sent under it
	awaited  int        // callers that may still have a request
	requests []redis.Cmder
	complete chan struct{} // closed when none is awaited
	answered chan struct{}
}

// JointCaller is one caller of a Joint.
type JointCaller struct {
	*Server // its first request goes out with those of the others, all others by themselves
	joint   *Joint
	counted bool // guarded by Joint.mu: the Joint no longer waits for the caller
}

// Join returns a caller for each of the locks, or nil if these locks are not known to be on one
// server. Each caller has to end with Done.
func (s *Server) Join(ctx context.Context, locks []Keys) []*JointCaller {
	if s.together.apart && !s.Sharded() {
		return nil
	}
	home, err := s.home(ctx, locks[0].Record())
	for _, keys := range locks[1:] {
		if other, failed := s.home(ctx, keys.Record()); err == nil && (failed != nil || s.Sharded() && other != home) {
			return nil
		}
	}
	if err != nil {
		return nil
	}
	j := &Joint{
		server: s.deployment, rdb: home, awaited: len(locks),
		complete: make(chan struct{}), answered: make(chan struct{}),
	}
	all := make([]*JointCaller, len(locks))
	for i := range all {
		all[i] = &JointCaller{joint: j}
		all[i].Server = &Server{deployment: s.deployment, by: all[i]}
	}
	return all
}

// Done notes that the caller will send nothing more.
func (c *JointCaller) Done() {
	c.joint.mu.Lock()
	defer c.joint.mu.Unlock()
	c.count()
}

// count notes that the Joint need not wait for the caller. Joint.mu must be held.
func (c *JointCaller) count() {
	if c.counted {
		return
	}
	c.counted = true
	if c.joint.awaited--; c.joint.awaited == 0 {
		close(c.joint.complete)
	}
}

// process sends the caller's first request with those of the others, and every other by itself. So
// does it send a request again if the node has just given the lock's slot away, or has left the
// cluster: that node did nothing, and did not redirect.
func (c *JointCaller) process(ctx context.Context, _ *prompt, request redis.Cmder) error {
	j := c.joint
	joins, sends := c.join(request)
	switch {
	case !joins:
		return process(ctx, j.server.rdb, request)
	case sends:
		j.send(ctx)
	default:
		<-j.answered
	}
	if err := request.Err(); err == nil || !elsewhere(err) || j.server.cluster == nil {
		return err
	}
	return process(ctx, j.server.rdb, request)
}

// send sends all requests once there are no more to come. A hook of the client's may end the
// goroutine: those that wait for it then find their requests unanswered, and repeat them.
func (j *Joint) send(ctx context.Context) {
	defer close(j.answered)
	<-j.complete
	_ = send(ctx, j.rdb, j.requests)
}

// join adds the caller's first request to those of the others. The caller whose request is the
// first of all sends them.
func (c *JointCaller) join(request redis.Cmder) (joins, sends bool) {
	j := c.joint
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.counted {
		return false, false
	}
	j.requests = append(j.requests, request)
	c.count()
	return true, len(j.requests) == 1
}
