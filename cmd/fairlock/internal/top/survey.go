// Package top shows all locks at once: how long their lines are, who holds them, and how fast they
// change hands.
package top

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/fairlock"
)

// Lock is one row of a Picture.
type Lock struct {
	Name    string
	Holder  *fairlock.Holder // nil: the lock is free
	Waiting int
	Longest time.Duration // how long the first waiter in line has waited
	Rate    float64       // hand-overs a second; see rate.go
	Damaged string        // what in the keys of the lock makes no sense
}

// Picture shows what all locks were doing at one look.
type Picture struct {
	At    time.Time
	Locks []Lock
	Spent time.Duration // how much of the server's time the look took, at most
	Next  time.Duration // until the next look
}

// Totals are sums over all locks.
type Totals struct {
	Locks, Held, Waiting int
	Longest              time.Duration
	Rate                 float64
}

// Totals adds up all locks.
func (p *Picture) Totals() Totals {
	t := Totals{Locks: len(p.Locks)}
	for _, l := range p.Locks {
		if l.Holder != nil {
			t.Held++
		}
		t.Waiting += l.Waiting
		t.Rate += l.Rate
		t.Longest = max(t.Longest, l.Longest)
	}
	return t
}

// Survey makes Pictures, one after the other.
type Survey struct {
	locker     fairlock.Interface
	locks, one *look.Pace // locks for looks at all locks, one for looks at one lock
	past       memory
}

// NewSurvey returns a Survey that looks through a Locker on rdb.
func NewSurvey(locker fairlock.Interface, rdb redis.UniversalClient) *Survey {
	return &Survey{locker: locker, locks: look.NewPace(rdb, time.Second), one: look.NewPace(rdb, time.Second)}
}

// Look makes a Picture.
func (s *Survey) Look(ctx context.Context) (*Picture, error) {
	s.locks.Begin(ctx)
	p := &Picture{At: time.Now()}
	for state, err := range s.locker.List(ctx) {
		if err != nil {
			return nil, err
		}
		l := Lock{Name: state.Name, Holder: state.Holder, Waiting: state.Waiting}
		if state.Damaged != nil {
			l.Damaged = state.Damaged.Error()
		}
		if len(state.Waiters) > 0 {
			l.Longest = state.Waiters[0].Waited
		}
		p.Locks = append(p.Locks, l)
	}
	p.Spent, p.Next = s.locks.End()
	s.past.rates(p)
	return p, nil
}

// Line looks at one lock and all its waiters. It also returns when to look next.
func (s *Survey) Line(ctx context.Context, name string) (state *fairlock.State, next time.Duration, err error) {
	s.one.Begin(ctx)
	state, err = s.locker.Inspect(ctx, name)
	_, next = s.one.End()
	return state, next, err
}
