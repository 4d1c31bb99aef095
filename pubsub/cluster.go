package pubsub

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// mostSought is the longest pause before the cluster looks again for a channel that it did not
// find.
const mostSought = 500 * time.Millisecond

// Nodes is a client that knows which node a channel lives on. A [redis.ClusterClient] is one.
type Nodes interface {
	ForEachMaster(ctx context.Context, f func(ctx context.Context, node *redis.Client) error) error
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
}

// Cluster does for sharded channels what a [Hub] does for others. A sharded channel lives on the
// master of its slot. A Cluster keeps a Hub, and so one subscription connection, for each master
// that has a channel with listeners, and moves the channels when their slots move. Its methods are
// safe for concurrent use.
type Cluster struct {
	rdb Nodes
	log *slog.Logger

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	work    sync.WaitGroup // run, follow, and the hubs that are being closed
	changed chan struct{}  // capacity 1: sought is not empty
	strayed chan struct{}  // capacity 1: astray is not empty
	looking atomic.Bool    // a look at the map of the slots is open

	mu      sync.Mutex // guards all below
	topics  map[string]*topic
	hubs    map[*redis.Client]*Hub
	sought  map[string]struct{} // channels to place on a node, for the first time or again
	astray  map[string]struct{} // channels that were not where the map of the slots says
	started bool
	closed  bool
}

// topic is a channel with at least one listener.
type topic struct {
	hub       *Hub                 // of the node where the channel lives; nil: not placed yet
	listeners map[*Listener]func() // each with the function that removes it from hub
}

// NewCluster returns a cluster without connections.
func NewCluster(rdb Nodes, log *slog.Logger) *Cluster {
	ctx, stop := context.WithCancel(context.Background())
	return &Cluster{
		rdb: rdb, log: log, ctx: ctx, stop: stop, changed: make(chan struct{}, 1), strayed: make(chan struct{}, 1),
		topics: make(map[string]*topic), hubs: make(map[*redis.Client]*Hub),
		sought: make(map[string]struct{}), astray: make(map[string]struct{}),
	}
}

// Listen adds a listener to the channel, as [Hub.Listen] does.
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

// serial returns a listener that makes only one call of l's functions at a time: while a channel
// moves, two hubs may call.
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
		if t.hub != nil && t.hub.idle() {
			c.closeIdle()
		}
	}
}

// seek asks run to place the channel. c.mu must be held.
func (c *Cluster) seek(channel string) {
	c.sought[channel] = struct{}{}
	signal(c.changed)
}

// signal wakes the goroutine that receives from the channel, now or at its next receive.
func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// stray asks follow to look for the channels: their node does not have them, or is gone.
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

// follow reads the map of the slots when channels are astray, and asks run to place the channels
// again, until Close. It runs apart from run: go-redis may ask a node that hangs for the map, and
// this must not delay channels whose node is known.
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
		c.look()
		c.mu.Lock()
		for channel := range astray {
			c.seek(channel)
		}
		c.mu.Unlock()
	}
}

// look reads the map of the slots now. If that fails or takes long, the channels are placed by the
// map that there is, and the next look reads the map. Only one look at a time is open: each may
// hang as the one before it.
func (c *Cluster) look() {
	if !c.looking.CompareAndSwap(false, true) {
		return
	}
	closes(timed(c.rdb), func() {
		defer c.looking.Store(false)
		_ = whole(func() error {
			return c.rdb.ForEachMaster(c.ctx, func(context.Context, *redis.Client) error { return nil })
		})
	})
}

// placeAll listens to each sought channel on the node where the channel should live.
func (c *Cluster) placeAll() {
	c.mu.Lock()
	sought := c.sought
	c.sought = make(map[string]struct{})
	c.mu.Unlock()
	var lost []string
	for channel := range sought {
		var node *redis.Client
		err := whole(func() (err error) {
			node, err = c.rdb.MasterForKey(c.ctx, channel)
			return err
		})
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

// closeIdle closes the hubs without channels. c.mu must be held.
func (c *Cluster) closeIdle() {
	for node, hub := range c.hubs {
		if !c.closed && hub.idle() {
			delete(c.hubs, node)
			c.work.Go(hub.Close) // in the background: the hub may be dialling a dead node
		}
	}
}

// Remake subscribes to the channel again: the caller has learned that its node does not see the
// subscription.
func (c *Cluster) Remake(channel string) { c.stray([]string{channel}) }

// Overhear yields an error that wraps [errors.ErrUnsupported]. There are no patterns for sharded
// channels, and a subscription to a client's own channel would make that client seem alive.
func (c *Cluster) Overhear(context.Context, ...string) iter.Seq2[Said, error] {
	return func(yield func(Said, error) bool) {
		yield(Said{}, fmt.Errorf("what a cluster tells its clients cannot be overheard: %w", errors.ErrUnsupported))
	}
}

// Close ends all connections, as [Hub.Close] does.
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
	closes(timed(c.rdb), c.work.Wait)
}
