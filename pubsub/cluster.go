package pubsub

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// mostSought is how long at most a channel that was not found waits until it is looked for again.
const mostSought = 500 * time.Millisecond

// Nodes is a client that knows on which node a channel lives, as a [redis.ClusterClient] does.
type Nodes interface {
	ForEachMaster(ctx context.Context, f func(ctx context.Context, node *redis.Client) error) error
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
}

// Cluster is what a [Hub] is where channels are sharded: each lives on the master of its slot. It keeps a Hub for each master
// of which it needs one, so there is one subscription connection to each, and has the channels follow their slots. Its methods are
// safe for concurrent use.
type Cluster struct {
	rdb Nodes
	log *slog.Logger

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	work    sync.WaitGroup // run and follow, and hubs that are being closed
	changed chan struct{}  // holds one: something is sought
	strayed chan struct{}  // holds one: something was not where the map of the slots says

	mu      sync.Mutex // guards all below
	topics  map[string]*topic
	hubs    map[*redis.Client]*Hub
	sought  map[string]struct{} // channels to be placed, for the first time or again
	astray  map[string]struct{} // channels that were not where the map of the slots says
	started bool
	closed  bool
}

// topic is a channel that somebody listens to.
type topic struct {
	hub       *Hub                 // of the node where it lives; nil: not placed yet
	listeners map[*Listener]func() // and what takes each away again from there
}

// NewCluster returns one without connections.
func NewCluster(rdb Nodes, log *slog.Logger) *Cluster {
	ctx, stop := context.WithCancel(context.Background())
	return &Cluster{
		rdb: rdb, log: log, ctx: ctx, stop: stop, changed: make(chan struct{}, 1), strayed: make(chan struct{}, 1),
		topics: make(map[string]*topic), hubs: make(map[*redis.Client]*Hub),
		sought: make(map[string]struct{}), astray: make(map[string]struct{}),
	}
}

// Listen is as that of [Hub].
func (c *Cluster) Listen(channel string, l *Listener) (forget func()) {
	l = l.serial()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return func() {}
	}
	t := c.topics[channel]
	if t == nil {
		t = &topic{listeners: make(map[*Listener]func())}
		c.topics[channel] = t
	}
	if t.hub != nil {
		t.listeners[l] = t.hub.Listen(channel, l)
	} else {
		t.listeners[l] = func() {}
		c.seek(channel)
	}
	if !c.started {
		c.started = true
		c.work.Go(c.run)
		c.work.Go(c.follow)
	}
	return func() { c.forget(channel, t, l) }
}

// serial is l for callers of which there may be two, while a channel moves from one hub to another.
func (l *Listener) serial() *Listener {
	var mu sync.Mutex
	return &Listener{
		Up: func() {
			mu.Lock()
			defer mu.Unlock()
			l.Up()
		},
		Message: func(payload string) {
			mu.Lock()
			defer mu.Unlock()
			l.Message(payload)
		},
	}
}

func (c *Cluster) forget(channel string, t *topic, l *Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	away := t.listeners[l]
	if away == nil {
		return
	}
	away()
	delete(t.listeners, l)
	if len(t.listeners) == 0 {
		delete(c.topics, channel)
		c.closeIdle()
	}
}

// seek has a channel placed. c.mu must be held.
func (c *Cluster) seek(channel string) {
	c.sought[channel] = struct{}{}
	signal(c.changed)
}

// signal wakes whoever listens, now or when next it does.
func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// stray has channels looked for: their node does not have them, or is gone.
func (c *Cluster) stray(channels []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, channel := range channels {
		c.astray[channel] = struct{}{}
	}
	signal(c.strayed)
}

// run places channels until Close.
func (c *Cluster) run() {
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.changed:
			c.placeAll()
		}
	}
}

// follow reads the map of the slots when channels are astray, and has them placed, until Close. It
// is apart from run, since a node that hangs may be the one that is asked, and is to hold up nobody
// but those who look for theirs.
func (c *Cluster) follow() {
	var backoff time.Duration
	var last time.Time
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.strayed:
		}
		if time.Since(last) > 2*mostSought {
			backoff = 0
		}
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(backoff):
		}
		last, backoff = time.Now(), min(max(2*backoff, minBackoff), mostSought)
		c.mu.Lock()
		astray := c.astray
		c.astray = make(map[string]struct{})
		c.mu.Unlock()
		// Reads it, now. Should that fail, the next look does it.
		_ = c.rdb.ForEachMaster(c.ctx, func(context.Context, *redis.Client) error { return nil })
		c.mu.Lock()
		for channel := range astray {
			c.seek(channel)
		}
		c.mu.Unlock()
	}
}

// placeAll has each channel that is sought listened to on the node that it should live on.
func (c *Cluster) placeAll() {
	c.mu.Lock()
	sought := c.sought
	c.sought = make(map[string]struct{})
	c.mu.Unlock()
	var lost []string
	for channel := range sought {
		node, err := c.rdb.MasterForKey(c.ctx, channel)
		if err != nil {
			lost = append(lost, channel)
			continue
		}
		c.place(channel, node)
	}
	c.mu.Lock()
	c.closeIdle()
	c.mu.Unlock()
	if len(lost) > 0 && c.ctx.Err() == nil {
		c.stray(lost)
	}
}

func (c *Cluster) place(channel string, node *redis.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.topics[channel]
	if t == nil || c.closed {
		return
	}
	hub := c.hubs[node]
	if hub == nil {
		hub = New(node, c.log.With("node", node.Options().Addr))
		hub.astray = c.stray
		c.hubs[node] = hub
	}
	if t.hub == hub {
		hub.again(channel)
		return
	}
	t.hub = hub
	for l, away := range t.listeners {
		away()
		t.listeners[l] = hub.Listen(channel, l)
	}
}

// closeIdle closes hubs of which nothing is wanted any more. c.mu must be held.
func (c *Cluster) closeIdle() {
	for node, hub := range c.hubs {
		if len(hub.channels()) == 0 && !c.closed {
			delete(c.hubs, node)
			c.work.Go(hub.Close) // it may be dialling a dead node
		}
	}
}

// Remake subscribes to the channel once more: somebody learned that its node does not see us.
func (c *Cluster) Remake(channel string) { c.stray([]string{channel}) }

// Overhear is an error: there is no pattern for sharded channels, and who listens to a client's own makes it seem alive.
func (c *Cluster) Overhear(context.Context, ...string) iter.Seq2[Said, error] {
	return func(yield func(Said, error) bool) {
		yield(Said{}, fmt.Errorf("what a cluster tells its clients cannot be overheard: %w", errors.ErrUnsupported))
	}
}

// Close is as that of [Hub].
func (c *Cluster) Close() {
	c.stop()
	c.mu.Lock()
	c.closed = true
	hubs := c.hubs
	c.hubs = nil
	for _, hub := range hubs {
		c.work.Go(hub.Close)
	}
	c.mu.Unlock()
	c.work.Wait()
}
