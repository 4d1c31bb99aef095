package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// session is one run of the demo: what the scenarios share.
type session struct {
	ctx     context.Context
	screen  *screen
	locker  *fairlock.Locker
	pool    *pool
	witness *witness
	report  report
}

// next returns the next event of interest. The witness has seen it.
func (s *session) next() (event, error) {
	for {
		select {
		case <-s.ctx.Done():
			return event{}, context.Cause(s.ctx)
		case e := <-s.pool.events:
			s.witness.see(e)
			switch {
			case e.Kind == onFailed:
				return e, fmt.Errorf("worker %s: %s", letter(e.Worker), e.Result)
			case e.Kind == onEnded && !s.pool.workers[e.Worker].doomed:
				return e, fmt.Errorf("worker %s ended: %s", letter(e.Worker), e.Result)
			case e.Kind != onEnded:
				return e, nil
			}
		}
	}
}

// each hands events to handle until handle returns true.
func (s *session) each(handle func(event) (enough bool)) error {
	for {
		e, err := s.next()
		if err != nil || handle(e) {
			return err
		}
	}
}

// await skips to the first event of a kind.
func (s *session) await(want kind) error {
	return s.each(func(e event) bool { return e.Kind == want })
}

const (
	lookEvery = 2 * time.Millisecond // how often to ask whether the server shows what was done
	lookFor   = 10 * time.Second     // after this time it never will
)

// until inspects a lock until its state is as wanted.
func (s *session) until(name string, so func(*fairlock.State) bool) (*fairlock.State, error) {
	for began := time.Now(); ; {
		state, err := s.locker.Inspect(s.ctx, name)
		if err != nil {
			return nil, s.cause(err)
		}
		if so(state) {
			return state, nil
		}
		if time.Since(began) > lookFor {
			return nil, fmt.Errorf("the server has not shown what was expected of the lock %q for %v", name, lookFor)
		}
		if err := s.pause(lookEvery); err != nil {
			return nil, err
		}
	}
}

// cause prefers the reason for which the demo was ended to the errors that followed from it.
func (s *session) cause(err error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return err
}

func (s *session) pause(d time.Duration) error {
	select {
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	case <-time.After(d):
		return nil
	}
}

// gate is a lock that the demo itself holds, so that a line forms behind it.
type gate struct {
	*session
	lease *fairlock.Lease
}

// shut takes a lock that nobody else has yet.
func (s *session) shut(name string) (*gate, error) {
	asked := now()
	lease, err := s.locker.Lock(s.ctx, name, fairlock.Note("the demo"))
	if err != nil {
		return nil, s.cause(err)
	}
	s.witness.see(event{Kind: onEntered, Lock: name, Who: "the demo", Token: lease.Token(), Asked: asked, At: now()})
	return &gate{s, lease}, nil
}

// open lets the first waiter in line in.
func (g *gate) open() error {
	g.witness.see(event{Kind: onLeft, Lock: g.lease.Name(), At: now()})
	return g.lease.Unlock(g.ctx)
}

// abandon unlocks a gate that a failed scenario has left shut.
func (g *gate) abandon() {
	if err := g.lease.Unlock(g.ctx); err != nil && !errors.Is(err, fairlock.ErrNotHeld) {
		g.screen.aside("the lock %q stays until its lease ends: %v", g.lease.Name(), err)
	}
}

// notes returns the notes of the waiters in line.
func notes(state *fairlock.State) []string {
	line := make([]string, len(state.Waiters))
	for i, waiter := range state.Waiters {
		line[i] = waiter.Note
	}
	return line
}

// isLast reports whether who is last in line.
func isLast(state *fairlock.State, who string) bool {
	n := len(state.Waiters)
	return n > 0 && state.Waiters[n-1].Note == who
}
