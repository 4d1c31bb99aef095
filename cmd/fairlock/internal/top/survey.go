// Package top shows all locks at once: how long their lines are, who has them, how fast they change
// hands.
package top

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/fairlock"
)

// Lock is one line of a Picture.
type Lock struct {
	Name    string
	Holder  *fairlock.Holder // nil: nobody
	Waiting int
	Longest time.Duration // how long the first in line has waited
	Rate    float64       // hand-overs a second; see rate.go
	Damaged string        // what in its keys makes no sense
}

// Picture is what all locks were doing when they were looked at.
type Picture struct {
	At    time.Time
	Locks []Lock
	Spent time.Duration // what that took of the server's time, at most
	Next  time.Duration // until the next
}

// Totals are of all locks together.
type Totals struct {
	Locks, Held, Waiting int
	Longest              time.Duration
	Rate                 float64
}

// Totals adds the locks up.
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
	locks, one *look.Pace // for all locks, and for one
	past       memory
}

// NewSurvey looks by way of a Locker on rdb.
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

// Line looks at one lock and all who wait for it, and says when to do so next.
func (s *Survey) Line(ctx context.Context, name string) (state *fairlock.State, next time.Duration, err error) {
	s.one.Begin(ctx)
	state, err = s.locker.Inspect(ctx, name)
	_, next = s.one.End()
	return state, next, err
}
