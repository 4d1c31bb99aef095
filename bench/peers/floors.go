package peers

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// The floors are what any lock has to ask of the wire, and nothing else. Except setnx, they exclude
// nobody.
var (
	ping = Peer{
		Name: "2 PINGs", Server: Redis, Floor: true, Requests: scripted, Only: []string{"pair", "keys"},
		Open: func(c Config) (Locker, error) { return floor{client(c), doPing, doPing}, nil },
	}
	noop = Peer{
		Name: "2 no-op EVALSHAs", Server: Redis, Floor: true, Requests: scripted, Only: []string{"pair", "keys"},
		Open: func(c Config) (Locker, error) { return floor{client(c), doNothing, doNothing}, nil },
	}
	setnx = Peer{
		Name: "SET NX + delete", Server: Redis, Floor: true, Requests: append([]string{"set"}, scripted...), Only: []string{"pair", "keys"},
		Open:  func(c Config) (Locker, error) { return floor{client(c), doSetNX, doCompareAndDelete}, nil },
		About: "SET NX PX and a script that compares and deletes; waits for nobody",
	}
	calls = Peer{
		Name: "the calls alone", Server: Redis, Floor: true, Requests: scripted, Only: []string{"pair", "keys"},
		Open: func(c Config) (Locker, error) { return floor{client(c), doTake, doGive}, nil },
		About: "two scripts with nothing but the nine commands that Fairlock's call for a free lock: is it free and does nobody wait, the record with " +
			"its deadline, the token that outlives it; and the way back",
	}
	callsAuto = Peer{
		Name: "the calls alone +auto", Server: Redis, Floor: true, Requests: scripted, Only: []string{"keys"},
		Open: func(c Config) (Locker, error) {
			rdb, err := pipelined(c)
			return floor{rdb, doTake, doGive}, err
		},
		About: "the same on go-redis' AutoPipeline, default options",
	}
	get = Peer{
		Name: "GET", Server: Redis, Floor: true, Requests: append([]string{"get"}, scripted...), Only: []string{"seckill"},
		Open:  func(c Config) (Locker, error) { return getFloor{floor{client(c), doPing, doPing}}, nil },
		About: "a GET of a missing key for each buyer, on the same client as all other go-redis users",
	}
	baton = Peer{
		Name: "baton", Server: Redis, Floor: true, Requests: append([]string{"rpush", "blpop"}, scripted...),
		Only: []string{"handover", "gap"},
		Most: map[string]Limit{"handover": {2_000, "a connection for each waiter, and the server takes no more than some thousands"}},
		Open: func(c Config) (Locker, error) {
			return batonLocker{client(c, func(o *redis.Options) { o.PoolSize = c.Waiters + 8 })}, nil
		},
		About: "RPUSH by the releaser, BLPOP by the waiters: no lease, no owner",
	}
)

// request is one round trip for a lock.
type request func(ctx context.Context, rdb redis.UniversalClient, name string) error

// floor sends one request to lock and one to unlock.
type floor struct {
	rdb          redis.UniversalClient
	lock, unlock request
}

// Lock sends the first request.
func (f floor) Lock(ctx context.Context, name string, _ func()) (Lock, error) {
	return floorHeld{f, name}, f.lock(ctx, f.rdb, name)
}

// Close closes the client.
func (f floor) Close() error { return f.rdb.Close() }

type floorHeld struct {
	floor
	name string
}

// Unlock sends the second request.
func (h floorHeld) Unlock(ctx context.Context) error { return h.unlock(ctx, h.rdb, h.name) }

func doPing(ctx context.Context, rdb redis.UniversalClient, _ string) error {
	return rdb.Ping(ctx).Err()
}

var nothing = redis.NewScript("return 1")

func doNothing(ctx context.Context, rdb redis.UniversalClient, _ string) error {
	return nothing.Run(ctx, rdb, nil).Err()
}

var compareAndDelete = redis.NewScript(`
	if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
	return 0`)

const owner = "7f9c2ba4-e88f-427d-b2a1-0c2f5a3d1e46"

func doSetNX(ctx context.Context, rdb redis.UniversalClient, name string) error {
	return rdb.SetNX(ctx, name, owner, 30*time.Second).Err()
}

func doCompareAndDelete(ctx context.Context, rdb redis.UniversalClient, name string) error {
	return compareAndDelete.Run(ctx, rdb, []string{name}, owner).Err()
}

// record returns the Lua code that writes what Fairlock writes for a new holder; owner and ticket
// are expressions.
func record(owner, ticket string) string {
	return `
		redis.call('SET', KEYS[4], '1790000000000000', 'PXAT', '9999999999999')
		redis.call('HSET', KEYS[1], 'owner', ` + owner + `, 'token', '1790000000000000', 'since', '1790000000000', 'lease', '30000', ` + ticket + `, '9999999999999:1')
		redis.call('PEXPIREAT', KEYS[1], '9999999999999')`
}

var (
	take = redis.NewScript(`
		redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3])
		redis.call('GET', KEYS[4])
		redis.call('TIME')` + record("ARGV[1]", "ARGV[2]") + `
		return {1, 2}`)
	give = redis.NewScript(`
		redis.call('EXISTS', KEYS[2], KEYS[3])
		redis.call('HDEL', KEYS[1], ARGV[2])
		redis.call('DEL', KEYS[1])
		return 1`)
)

const ticket = owner + ":1:30000::"

func keysOf(name string) []string {
	return []string{"lock:{" + name + "}", "queue:{" + name + "}", "waiters:{" + name + "}", "token:{" + name + "}"}
}

func doTake(ctx context.Context, rdb redis.UniversalClient, name string) error {
	return take.Run(ctx, rdb, keysOf(name), owner+":1", ticket).Err()
}

func doGive(ctx context.Context, rdb redis.UniversalClient, name string) error {
	return give.Run(ctx, rdb, keysOf(name), owner+":1", ticket).Err()
}

// getFloor sends a GET for every Try, and always gives the same answer.
type getFloor struct{ floor }

// Try asks the server for something that costs it next to nothing.
func (f getFloor) Try(ctx context.Context, name string, _ int) (Lock, error) {
	if err := f.rdb.Get(ctx, name).Err(); err != redis.Nil { //nolint:errorlint // as go-redis returns it
		return nil, err
	}
	return nil, ErrRefused
}

// batonLocker hands the only element of a list from caller to caller.
type batonLocker struct{ rdb *redis.Client }

// Prepare makes the element.
func (l batonLocker) Prepare(ctx context.Context, name string) error {
	return l.rdb.RPush(ctx, name, 1).Err()
}

// Lock waits for the element.
func (l batonLocker) Lock(ctx context.Context, name string, _ func()) (Lock, error) {
	if err := l.rdb.BLPop(ctx, 0, name).Err(); err != nil {
		return nil, err
	}
	return unlock(func(ctx context.Context) error { return l.rdb.RPush(ctx, name, 1).Err() }), nil
}

// Close closes the client.
func (l batonLocker) Close() error { return l.rdb.Close() }
