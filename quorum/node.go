package quorum

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/pubsub"
)

// silence is how old a node's oldest unanswered request may be. Calls do not ask an older node, and
// nobody waits for it. It is by node, for a call is over sooner than this.
const silence = 250 * time.Millisecond

// node is one master. It is away when it is silent, or its last request failed: then only probes
// are sent, until one is answered.
type node struct {
	i      int
	rdb    redis.UniversalClient
	server *lua.Server
	hub    *pubsub.Hub
	spawn  func(func())
	meet   func(context.Context) error // finds out whether the node belongs to the quorum
	back   func(i int)                 // the node answers again; it is called with no mutex held
	ended  <-chan struct{}

	mu      sync.Mutex // guards what follows; nothing is sent under it
	open    list.List  // of times: when the requests that are not answered yet were sent
	failed  bool       // the last request failed, or the node was never met
	probing bool
	session uint64 // of the subscription: how often it came up
}

// run runs a script on the node.
func (n *node) run(ctx context.Context, sc lua.Script, keys []string, args ...any) ([]any, error) {
	n.mu.Lock()
	sent := n.open.PushBack(time.Now())
	n.mu.Unlock()
	reply, err := n.server.Run(ctx, sc, keys, args...)
	n.mu.Lock()
	n.open.Remove(sent)
	n.failed = err != nil && (!lua.Answered(err) || lua.Passing(err)) && ctx.Err() == nil
	n.mu.Unlock()
	if err != nil {
		n.away() // begins to probe
	}
	return reply, err
}

// away reports whether the node is not to be asked now. If so, it is probed until it answers.
func (n *node) away() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.failed && !n.silent(time.Now()) {
		return false
	}
	if !n.probing {
		n.probing = true
		n.spawn(n.probe)
	}
	return true
}

// silent reports whether a request has gone unanswered for too long. n.mu must be held.
func (n *node) silent(now time.Time) bool {
	oldest := n.open.Front()
	return oldest != nil && now.Sub(oldest.Value.(time.Time)) > silence
}

// probe returns when the node answers again, or the Locker is closed.
func (n *node) probe() {
	var backoff engine.Backoff
	for {
		err := n.meet(context.Background())
		n.mu.Lock()
		over := err == nil && !n.silent(time.Now())
		if closed(n.ended) {
			over = true
		}
		if over {
			n.probing, n.failed = false, err != nil
		}
		n.mu.Unlock()
		if over {
			if err == nil {
				n.back(n.i)
			}
			return
		}
		select {
		case <-time.After(backoff.Next()):
		case <-n.ended:
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
