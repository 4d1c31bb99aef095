package explore

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/redislua"
)

// nowMS and nowUS are the moment at which every request is executed.
const (
	nowMS = 1_900_000_000_000
	nowUS = nowMS * 1000
)

var names = [clients + 1]string{"a" + lua.KnowsRuns, "b" + lua.KnowsRuns, "c" + lua.KnowsRuns, "admin"}

// engine is a miniredis that can be put into any state.
type engine struct {
	mini    *miniredis.Miniredis
	rdb     *redis.Client
	callers [clients + 1]*lua.Server
	keys    lua.Keys
	runner  *redislua.Runner
	run     map[string]string // by the hash that package lua knows, the script to run

	subscriber *miniredis.Subscriber
	mu         sync.Mutex
	told       []string
	end        chan struct{}
}

func newEngine(run map[string]string) (*engine, error) {
	e := &engine{mini: miniredis.NewMiniRedis(), run: run, end: make(chan struct{})}
	e.mini.SetTime(time.UnixMilli(nowMS))
	var err error
	if e.runner, err = redislua.New(e.mini); err != nil {
		return nil, err
	}
	dial := func(context.Context, string, string) (net.Conn, error) { return e.mini.Dial() }
	const never = time.Hour // on a machine that gives the search no time for seconds
	e.rdb = redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", Dialer: dial, Protocol: 2, DisableIdentity: true, PoolSize: 1,
		ReadTimeout: never, WriteTimeout: never, PoolTimeout: never,
	})
	e.subscriber = e.mini.NewSubscriber()
	go e.listen()
	if err := e.rdb.Ping(context.Background()).Err(); err != nil { // the first dial starts miniredis
		return nil, errors.Join(err, e.close())
	}
	e.mini.Server().SetPreHook(e.script)
	for i, name := range names {
		e.callers[i] = lua.NewServer(e.rdb, lua.Channels("fairlock"), name)
	}
	e.keys, err = lua.NewKeys("fairlock", "x")
	return e, err
}

func (e *engine) close() error {
	err := e.rdb.Close()
	e.subscriber.Close()
	<-e.end
	e.mini.Close()
	e.runner.Close()
	return err
}

// listen collects what scripts publish, up to the next flush.
func (e *engine) listen() {
	defer close(e.end)
	for m := range e.subscriber.Messages() {
		e.mu.Lock()
		e.told = append(e.told, m.Message)
		e.mu.Unlock()
	}
}

// heardNow returns what was published since the last call. The engine publishes a flush message
// behind all others: once that has come, all have.
func (e *engine) heardNow() []string {
	e.mini.Publish("flush", "")
	e.mini.Publish("flush", "")
	e.mu.Lock()
	defer e.mu.Unlock()
	var told []string
	for _, text := range e.told {
		if text != "" {
			told = append(told, text)
		}
	}
	e.told = nil
	return told
}

// script runs the changed scripts in place of the real ones.
func (e *engine) script(client *miniserver.Peer, command string, args ...string) bool {
	if command != "EVALSHA" {
		return false
	}
	if source, ok := e.run[args[0]]; ok {
		e.runner.Run(client, source, args[1:])
	} else {
		client.WriteError("ERR package lua runs a script that is not among the files: " + args[0])
	}
	return true
}

// execute executes a request in its situation.
func (e *engine) execute(ctx context.Context, s situation) *effect {
	w := words{sagas: s.sagas, base: nowUS - 1000, behind: s.behind}
	e.restore(&w, &s.before)
	f := &effect{}
	f.rep, f.err = e.call(ctx, &w, &s.req)
	if f.err == nil {
		f.after, f.err = e.capture(&w, &s.before)
	}
	texts := e.heardNow()
	for _, text := range texts {
		m, err := w.message(text)
		f.told, f.err = append(f.told, m), errors.Join(f.err, err)
	}
	return f
}
