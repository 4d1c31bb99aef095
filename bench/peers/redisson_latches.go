package peers

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redisson's defaults for sharing connections between subscriptions.
const (
	channelsPerConnection = 5
	listeningConnections  = 50
	subscriptions         = channelsPerConnection * listeningConnections
	subscribeWithin       = 7500 * time.Millisecond
	stripes               = 50 // of channels; each stripe has one SUBSCRIBE or UNSUBSCRIBE under way
)

var errNoSubscription = errors.New("unable to acquire subscription lock: too few connections")

// latches wakes waiters, each waiter through a channel of its own.
type latches struct {
	rdb     *redis.Client
	stripes [stripes]sync.Mutex
	once    sync.Once
	room    chan struct{} // has one token for each possible subscription
	ended   chan struct{}

	mu    sync.Mutex // guards all below
	conns []*listener
	byKey map[string]*latch
}

// listener is a connection with up to channelsPerConnection channels.
type listener struct {
	pubsub   *redis.PubSub
	channels int // guarded by latches.mu
}

// latch wakes one waiter.
type latch struct {
	at         *listener
	woken      chan struct{}
	subscribed chan struct{}
	gone       chan struct{}
}

func (l *latches) begin() {
	l.room = make(chan struct{}, subscriptions)
	l.ended = make(chan struct{})
	l.byKey = map[string]*latch{}
}

func (l *latches) stripe(channel string) *sync.Mutex {
	h := fnv.New32a()
	_, _ = h.Write([]byte(channel)) // never fails
	return &l.stripes[h.Sum32()%stripes]
}

// subscribe returns when the server has confirmed. It keeps the stripe until then.
func (l *latches) subscribe(ctx context.Context, channel string) (*latch, error) {
	l.once.Do(l.begin)
	timeout := time.NewTimer(subscribeWithin)
	defer timeout.Stop()
	select {
	case l.room <- struct{}{}:
	case <-timeout.C:
		return nil, errNoSubscription
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	stripe := l.stripe(channel)
	stripe.Lock()
	defer stripe.Unlock()
	made := l.place(channel)
	if err := made.at.pubsub.Subscribe(ctx, channel); err != nil {
		return nil, err
	}
	select {
	case <-made.subscribed:
		return made, nil
	case <-timeout.C:
		return nil, errNoSubscription
	}
}

// place finds or makes a connection with room.
func (l *latches) place(channel string) *latch {
	l.mu.Lock()
	defer l.mu.Unlock()
	made := &latch{woken: make(chan struct{}, 1), subscribed: make(chan struct{}), gone: make(chan struct{})}
	l.byKey[channel] = made
	for _, conn := range l.conns {
		if conn.channels < channelsPerConnection {
			made.at = conn
		}
	}
	if made.at == nil {
		made.at = &listener{pubsub: l.rdb.Subscribe(context.Background())}
		l.conns = append(l.conns, made.at)
		go l.listen(made.at)
	}
	made.at.channels++
	return made
}

func (l *latches) listen(conn *listener) {
	for {
		message, err := conn.pubsub.Receive(context.Background())
		if errors.Is(err, redis.ErrClosed) {
			return
		}
		switch m := message.(type) {
		case *redis.Subscription:
			if latch := l.find(m.Channel); latch != nil && m.Kind == "subscribe" {
				close(latch.subscribed)
			} else if latch != nil {
				close(latch.gone)
			}
		case *redis.Message:
			if latch := l.find(m.Channel); latch != nil {
				select {
				case latch.woken <- struct{}{}:
				default: // the waiter has been woken already
				}
			}
		}
	}
}

func (l *latches) find(channel string) *latch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byKey[channel]
}

// unsubscribe keeps the stripe until the server has confirmed. Its caller does not wait for that.
func (l *latches) unsubscribe(done *latch, channel string) {
	stripe := l.stripe(channel)
	stripe.Lock()
	defer stripe.Unlock()
	if err := done.at.pubsub.Unsubscribe(context.Background(), channel); err != nil {
		return // the client is closed
	}
	select {
	case <-done.gone:
	case <-l.ended:
		return
	}
	l.mu.Lock()
	delete(l.byKey, channel)
	done.at.channels--
	l.mu.Unlock()
	<-l.room
}

func (l *latches) close() {
	l.once.Do(l.begin)
	close(l.ended)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		conn.pubsub.Close()
	}
}

// wait returns when the latch was released or the time is over. A time of 0 is over at once, as in
// Redisson behind a dead head. A negative time never ends; only a lock without an end gives one.
func (a *latch) wait(ctx context.Context, ttl time.Duration) error {
	if ttl < 0 {
		select {
		case <-a.woken:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	timer := time.NewTimer(ttl)
	defer timer.Stop()
	select {
	case <-a.woken:
		return nil
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
