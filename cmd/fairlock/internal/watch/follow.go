package watch

import (
	"context"
	"slices"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/fairlock"
)

const (
	// settle is how long to wait after a look for messages sent before it: they come over another
	// connection.
	settle = 10 * time.Millisecond
	// again is the pause after a failure.
	again = time.Second
)

// Teller receives the events.
type Teller interface {
	// Tell is given the events that were noticed at one time.
	Tell([]Event) error
	// Blind is called after a look that failed, Sees after one that worked.
	Blind(error)
	Sees()
	// Deaf is called, once, if nothing can be overheard.
	Deaf(error)
}

// Follow tells what happens to the lock called name, until ctx ends or the teller returns an error.
func Follow(ctx context.Context, locker fairlock.Interface, pace *look.Pace, name string, teller Teller) error {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{
		locker: locker, pace: pace, name: name, teller: teller, tracker: NewTracker(name),
		heard: make(chan overheard), looked: make(chan looked, 1), deaf: make(chan error, 1), over: make(chan struct{}),
	}
	go f.listen(ctx)
	defer func() { <-f.over }()
	defer cancel()
	return f.follow(ctx)
}

type overheard struct {
	fairlock.Overheard
	at time.Time
}

type looked struct {
	state    *fairlock.State
	err      error
	sent, at time.Time
	rest     time.Duration
}

type follower struct {
	locker  fairlock.Interface
	pace    *look.Pace
	name    string
	teller  Teller
	tracker *Tracker
	heard   chan overheard
	looked  chan looked // capacity 1
	deaf    chan error  // capacity 1
	over    chan struct{}
}

// follow handles one thing after the other. Messages that arrive during a look wait for it: then
// the tokens say which was first.
func (f *follower) follow(ctx context.Context) error {
	next := time.NewTimer(0)
	defer next.Stop()
	var settled <-chan time.Time
	var sight looked
	var waiting []overheard
	looking := false
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case err := <-f.deaf:
			f.teller.Deaf(err)
		case <-next.C:
			looking = true
			go f.look(ctx)
		case sight = <-f.looked:
			settled = time.After(settle)
		case <-settled:
			looking, settled = false, nil
			err = f.compare(sight, waiting)
			waiting = nil
			next.Reset(sight.rest)
		case o := <-f.heard:
			if looking {
				waiting = append(waiting, o)
			} else {
				err = f.hear(o)
			}
		}
		if err != nil {
			return err
		}
	}
}

// compare handles a look and the messages that arrived meanwhile.
func (f *follower) compare(sight looked, waiting []overheard) error {
	later := slices.IndexFunc(waiting, func(o overheard) bool {
		return sight.err != nil || o.Token > sight.state.Token
	})
	if later < 0 {
		later = len(waiting)
	}
	for _, o := range waiting[:later] {
		if err := f.hear(o); err != nil {
			return err
		}
	}
	if sight.err != nil {
		f.teller.Blind(sight.err)
	} else {
		f.teller.Sees()
		if err := f.tell(f.tracker.Look(sight.state, sight.sent, sight.at)); err != nil {
			return err
		}
	}
	for _, o := range waiting[later:] {
		if err := f.hear(o); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) hear(o overheard) error { return f.tell(f.tracker.Hear(o.Overheard, o.at)) }

func (f *follower) tell(events []Event) error {
	if len(events) == 0 {
		return nil
	}
	return f.teller.Tell(events)
}

func (f *follower) look(ctx context.Context) {
	f.pace.Begin(ctx)
	l := looked{sent: time.Now()}
	l.state, l.err = f.locker.Inspect(ctx, f.name)
	l.at = time.Now()
	_, l.rest = f.pace.End()
	if l.err != nil {
		l.rest = again // the time was not the server's work
	}
	f.looked <- l
}

// listen passes on what it overhears. What it cannot hear, the looks have to show.
func (f *follower) listen(ctx context.Context) {
	defer close(f.over)
	complained := false
	for ctx.Err() == nil {
		for o, err := range f.locker.Overhear(ctx, f.name) {
			if err != nil && ctx.Err() == nil && !complained {
				complained = true
				f.deaf <- err
			}
			if err != nil || o.Kind == fairlock.Reconnected {
				continue
			}
			select {
			case f.heard <- overheard{o, time.Now()}:
			case <-ctx.Done():
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}
