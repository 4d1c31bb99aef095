package explore

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// server executes requests. It remembers what a script did to a state, so each script runs once per
// state.
type server struct {
	sagas   uint8 // the tickets with the explicit owner, one bit each
	behind  bool  // the server's clock was set back: it is behind every token
	engines chan *engine

	mu   *sync.Mutex
	memo map[situation]*effect
}

// newServer starts n engines with the changed scripts of dir.
func newServer(dir string, n int, changes ...change) (*server, error) {
	run, err := sources(dir, changes...)
	if err != nil {
		return nil, err
	}
	x := &server{engines: make(chan *engine, n), mu: new(sync.Mutex), memo: make(map[situation]*effect)}
	for range n {
		e, err := newEngine(run)
		if err != nil {
			return nil, err
		}
		x.engines <- e
	}
	return x, nil
}

func (x *server) close() (err error) {
	for range cap(x.engines) {
		err = errors.Join(err, (<-x.engines).close())
	}
	return err
}

// as returns the server that a scenario asks for. All of them share what is remembered.
func (x *server) as(sc scenario) *server {
	y := *x
	y.sagas, y.behind = sc.sagas, sc.behind
	return &y
}

// situation is a request, the state that it meets, and the numbers of tokens and places in that
// state.
type situation struct {
	before keys
	req    request
	sagas  uint8
	behind bool
}

// effect is what the request did.
type effect struct {
	after keys
	rep   reply
	told  []message
	err   error
}

// execute runs req on k. New tokens and places count from first on.
func (x *server) execute(k keys, req request, first int32) (keys, effect) {
	tokens, places := ranks(func(f func(*int32)) { eachToken(&k, f); f(&req.token); f(&req.seen) }),
		ranks(func(f func(*int32)) { eachPlace(&k, f); eachAsked(&req, f) })
	eachToken(&k, tokens.inner)
	tokens.inner(&req.token)
	tokens.inner(&req.seen)
	eachPlace(&k, places.inner)
	eachAsked(&req, places.inner)
	req.knew = 0
	e := x.recall(situation{k, req, x.sagas, x.behind})
	if e.err != nil {
		return k, *e
	}
	out := *e
	out.told = slices.Clone(e.told)
	token := func(v *int32) { tokens.outer(v, first) }
	place := func(v *int32) { places.outer(v, first) }
	eachToken(&out.after, token)
	eachPlace(&out.after, place)
	token(&out.rep.token)
	token(&out.rep.passing.token)
	for i := range out.rep.of {
		token(&out.rep.of[i].token)
		place(&out.rep.of[i].place)
	}
	for i := range out.told {
		token(&out.told[i].token)
	}
	return out.after, out
}

func (x *server) recall(s situation) *effect {
	x.mu.Lock()
	e := x.memo[s]
	x.mu.Unlock()
	if e == nil {
		engine := <-x.engines
		e = engine.execute(context.Background(), s)
		x.engines <- engine
		x.mu.Lock()
		x.memo[s] = e
		x.mu.Unlock()
	}
	return e
}
