// Package survey looks at all locks at once: how long their lines are, who holds them, and how fast
// they change hands.
package survey

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/fairlock"
)

// Lock is one row of a Picture.
type Lock struct {
	Kind    string // locks.Fair, locks.Plain or locks.Quorum
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

// NewLock returns the row of a lock in this state, without its rate.
func NewLock(kind string, state *fairlock.State) Lock {
	l := Lock{Kind: kind, Name: state.Name, Holder: state.Holder, Waiting: state.Waiting}
	if state.Damaged != nil {
		l.Damaged = state.Damaged.Error()
	}
	if len(state.Waiters) > 0 {
		l.Longest = state.Waiters[0].Waited
	}
	return l
}

// ByWaiting is for sorting, as ByRate and ByLongest are: the most interesting lock comes first.
func ByWaiting(a, b Lock) int { return cmp.Compare(b.Waiting, a.Waiting) }

// ByRate is for sorting: see [ByWaiting].
func ByRate(a, b Lock) int { return cmp.Compare(b.Rate, a.Rate) }

// ByLongest is for sorting: see [ByWaiting].
func ByLongest(a, b Lock) int { return cmp.Compare(b.Longest, a.Longest) }

// ByName is for sorting, in the order of the alphabet.
func ByName(a, b Lock) int { return strings.Compare(a.Name, b.Name) }

// Survey makes Pictures, one after the other.
type Survey struct {
	lockers  []locks.Locker
	all, one *look.Pace // all for looks at all locks, one for looks at one lock
	past     Rates
	busy     chan struct{} // has room for one: the look that is under way
}

// New returns a Survey that looks through Lockers, at this pace.
func New(pace *look.Pace, lockers ...locks.Locker) *Survey {
	return &Survey{lockers: lockers, all: pace, one: pace.Another(), busy: make(chan struct{}, 1)}
}

// alone waits until no other look is under way: looks share what they measure. The returned function
// ends the look.
func (s *Survey) alone(ctx context.Context) (done func(), err error) {
	select {
	case s.busy <- struct{}{}:
		return func() { <-s.busy }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Look makes a Picture. It waits for a look that is under way.
func (s *Survey) Look(ctx context.Context) (*Picture, error) {
	done, err := s.alone(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	s.all.Begin(ctx)
	p := &Picture{At: time.Now()}
	for _, l := range s.lockers {
		for state, err := range l.List(ctx) {
			if err != nil {
				return nil, err
			}
			p.Locks = append(p.Locks, NewLock(l.Kind, state))
		}
	}
	p.Spent, p.Next = s.all.End()
	s.past.Add(p)
	return p, nil
}

// Line looks at one lock of the first Locker and all its waiters. It waits for a look that is under
// way. It also returns when to look next.
func (s *Survey) Line(ctx context.Context, name string) (state *fairlock.State, next time.Duration, err error) {
	done, err := s.alone(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer done()
	s.one.Begin(ctx)
	state, err = s.lockers[0].Inspect(ctx, name)
	_, next = s.one.End()
	return state, next, err
}

// Pace returns a Pace for looks of the caller's own between those of the Survey.
func (s *Survey) Pace() *look.Pace { return s.all.Another() }
