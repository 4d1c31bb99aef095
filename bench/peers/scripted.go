package peers

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// told is the floor for whatever locks with scripts and tells the next in line by a message: a script of one command to come,
// one of two or three to go.
var told = Peer{
	Name: "told baton", Server: Redis, Floor: true, Requests: scripted, Only: []string{"handover", "gap"},
	Open: func(c Config) (Locker, error) {
		l := &toldLocker{rdb: client(c), id: uuid.NewString(), waiting: make(map[string]chan struct{})}
		return l, l.listen(context.Background())
	},
	About: "a line in a list; a script that joins it, one that leaves it and tells the next by the reply or a message: no lease, no owner, and nobody may die",
}

var (
	come = redis.NewScript(`return redis.call('RPUSH', KEYS[1], ARGV[1])`)
	pass = redis.NewScript(`
		redis.call('LPOP', KEYS[1])
		local next = redis.call('LINDEX', KEYS[1], 0)
		if not next then return '' end
		local client = string.sub(next, 1, 36)
		if client ~= ARGV[1] then redis.call('PUBLISH', 'told:' .. client, next) end
		return next`)
)

type toldLocker struct {
	rdb  *redis.Client
	sub  *redis.PubSub
	id   string // 36 characters
	last atomic.Int64

	mu      sync.Mutex // guards waiting
	waiting map[string]chan struct{}
}

// listen returns when the server knows of the subscription.
func (l *toldLocker) listen(ctx context.Context) error {
	l.sub = l.rdb.Subscribe(ctx, "told:"+l.id)
	if _, err := l.sub.Receive(ctx); err != nil {
		return err
	}
	go func() {
		for message := range l.sub.Channel() {
			l.wake(message.Payload)
		}
	}()
	return nil
}

func (l *toldLocker) wake(ticket string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if turn := l.waiting[ticket]; turn != nil {
		close(turn)
		delete(l.waiting, ticket)
	}
}

// Lock joins the line and waits for its turn.
func (l *toldLocker) Lock(ctx context.Context, name string, _ func()) (Lock, error) {
	ticket, turn := l.id+":"+strconv.FormatInt(l.last.Add(1), 10), make(chan struct{})
	l.mu.Lock()
	l.waiting[ticket] = turn
	l.mu.Unlock()
	position, err := come.Run(ctx, l.rdb, []string{name}, ticket).Int()
	switch {
	case err != nil:
		return nil, err
	case position == 1:
		l.wake(ticket)
	}
	select {
	case <-turn:
		return unlock(func(ctx context.Context) error { return l.leave(ctx, name) }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *toldLocker) leave(ctx context.Context, name string) error {
	next, err := pass.Run(ctx, l.rdb, []string{name}, l.id).Text()
	if err == nil && strings.HasPrefix(next, l.id) {
		l.wake(next)
	}
	return err
}

// Close closes the subscription and the client.
func (l *toldLocker) Close() error { return errors.Join(l.sub.Close(), l.rdb.Close()) }
