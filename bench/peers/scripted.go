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

// told and toldCalls wake the next waiter by a message. told is the floor of any lock with scripts,
// toldCalls the floor of any lock that also keeps a record.
var (
	told = Peer{
		Name: "told baton", Server: Redis, Floor: true, Requests: scripted, Only: []string{"handover", "gap"},
		Open: func(c Config) (Locker, error) {
			return openTold(c, func(name string) []string { return []string{name} }, come, pass)
		},
		About: "a line in a list; a script that joins it, one that leaves it and tells the next by the reply or a message: no lease, no owner, and nobody may die",
	}
	toldCalls = Peer{
		Name: "the hand-over alone", Server: Redis, Floor: true, Requests: scripted, Only: []string{"handover", "gap"},
		Open: func(c Config) (Locker, error) { return openTold(c, keysOf, comeWithRecord, passWithRecord) },
		About: "the told baton with what Fairlock writes at a hand-over: the line with its deadlines, the record with its own, the token; the next one's " +
			"channel is heard. Nothing is looked at otherwise: no marks, no lost data, no wrong types, no late requests",
	}
)

// The script of a caller that comes returns 1 if no other caller was there. The script of a caller
// that leaves returns the ticket of the next.
var (
	come = redis.NewScript(`return redis.call('RPUSH', KEYS[1], ARGV[2])`)
	pass = redis.NewScript(`
		redis.call('LPOP', KEYS[1])
		local next = redis.call('LINDEX', KEYS[1], 0)
		if not next then return '' end
		local client = string.sub(next, 1, 36)
		if client ~= ARGV[1] then redis.call('PUBLISH', 'told:' .. client, next) end
		return next`)
	comeWithRecord = redis.NewScript(`
		redis.call('TIME')
		if redis.call('HGET', KEYS[1], 'owner') then
			redis.call('ZADD', KEYS[3], '9999999999999', ARGV[2])
			redis.call('RPUSH', KEYS[2], ARGV[2])
			return 2
		end` + record("ARGV[2]", "ARGV[2]") + `
		return 1`)
	passWithRecord = redis.NewScript(`
		redis.call('TIME')
		redis.call('HDEL', KEYS[1], ARGV[2])
		local next = redis.call('LPOP', KEYS[2])
		if not next then
			redis.call('DEL', KEYS[1])
			return ''
		end
		redis.call('ZREM', KEYS[3], next)` + record("next", "next") + `
		local client = string.sub(next, 1, 36)
		if client ~= ARGV[1] then
			redis.call('PUBSUB', 'NUMSUB', 'told:' .. client)
			redis.call('PUBLISH', 'told:' .. client, next)
		end
		return next`)
)

type toldLocker struct {
	rdb        *redis.Client
	sub        *redis.PubSub
	id         string // 36 characters
	keys       func(name string) []string
	come, pass *redis.Script
	last       atomic.Int64

	mu      sync.Mutex // guards waiting
	waiting map[string]chan struct{}
}

func openTold(c Config, keys func(name string) []string, come, pass *redis.Script) (Locker, error) {
	l := &toldLocker{rdb: client(c), id: uuid.NewString(), keys: keys, come: come, pass: pass, waiting: make(map[string]chan struct{})}
	err := l.listen(context.Background())
	return l, err
}

// listen returns when the server has confirmed the subscription.
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
	position, err := l.come.Run(ctx, l.rdb, l.keys(name), l.id, ticket).Int()
	switch {
	case err != nil:
		return nil, err
	case position == 1:
		l.wake(ticket)
	}
	select {
	case <-turn:
		return unlock(func(ctx context.Context) error { return l.leave(ctx, name, ticket) }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *toldLocker) leave(ctx context.Context, name, ticket string) error {
	next, err := l.pass.Run(ctx, l.rdb, l.keys(name), l.id, ticket).Text()
	if err == nil && strings.HasPrefix(next, l.id) {
		l.wake(next)
	}
	return err
}

// Close closes the subscription and the client.
func (l *toldLocker) Close() error { return errors.Join(l.sub.Close(), l.rdb.Close()) }
