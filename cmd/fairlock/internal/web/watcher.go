package web

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/cmd/fairlock/internal/survey"
	"github.com/fairlock/locks/fairlock"
)

const (
	// linger is for how long a view is kept up to date after somebody asked for it. Browsers ask
	// again while they show it.
	linger = 30 * time.Second
	// mostViews bounds what is looked at. One more, and the view that nobody has asked for the
	// longest is given up.
	mostViews = 64
	// again is the pause after a failure.
	again = 2 * time.Second
	// refusedAgain is the pause after the server has refused us hand-overs for want of a right.
	// Each refusal is a line of its ACL LOG; but the right may be given.
	refusedAgain = time.Minute
)

// The shortest times between two looks at all locks and at one.
const (
	soonAll = time.Second
	soonOne = 500 * time.Millisecond
)

// key names what somebody looks at: one lock.
type key struct{ kind, name string }

// everything is the key of the view of all locks.
var everything = key{}

// watcher looks at locks for all browsers together, while there are any. So their number costs the
// server nothing. All looks are made by one goroutine, one after the other.
type watcher struct {
	lockers map[string]locks.Locker // by kind
	survey  *survey.Survey
	pace    *look.Pace
	wake    chan struct{} // capacity 1: there is a new view

	mu      sync.Mutex // guards all below
	views   map[key]*view
	trails  trails
	lately  []happening       // to any lock, the last first
	deaf    map[string]string // why hand-overs cannot be heard, by kind
	changed chan struct{}     // closed with the next change of anything above
}

// view is what is known of one lock or, with a picture, of all.
type view struct {
	picture *survey.Picture
	state   *fairlock.State
	rate    float64       // of the one lock
	lately  []happening   // to the one lock, the last first
	looked  time.Time     // when the last look ended; zero: there was none
	rest    time.Duration // until the next look
	failed  error         // why the last look shows nothing
	since   time.Time     // when the looks began to fail

	asked time.Time // when somebody last wanted to see this
	pace  *look.Pace
	rates *survey.Rates // used by looks alone, like pace
}

func newWatcher(rdb redis.UniversalClient, lockers []locks.Locker) *watcher {
	all := survey.New(look.NewPace(0, rdb), lockers...)
	w := &watcher{
		lockers: make(map[string]locks.Locker), survey: all, pace: all.Pace(), wake: make(chan struct{}, 1),
		views: make(map[key]*view), trails: make(trails), deaf: make(map[string]string), changed: make(chan struct{}),
	}
	for _, l := range lockers {
		w.lockers[l.Kind] = l
	}
	return w
}

// see returns what is known of k. It waits for a first look, unless ctx ends before.
func (w *watcher) see(ctx context.Context, k key) view {
	for {
		w.mu.Lock()
		v, changed := *w.ask(k), w.changed
		w.mu.Unlock()
		if !v.looked.IsZero() {
			return v
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return v
		}
	}
}

// ask returns the view of k, which is kept up to date from now on. mu is held.
func (w *watcher) ask(k key) *view {
	v := w.views[k]
	if v == nil {
		if len(w.views) >= mostViews {
			delete(w.views, w.leastAsked())
		}
		v = &view{pace: w.pace.Another(), rates: new(survey.Rates)}
		w.views[k] = v
		w.rouse()
	}
	v.asked = time.Now()
	return v
}

// leastAsked returns the lock that nobody has asked for the longest. mu is held.
func (w *watcher) leastAsked() (least key) {
	for k, v := range w.views {
		if k != everything && (least == everything || v.asked.Before(w.views[least].asked)) {
			least = k
		}
	}
	return least
}

// hurry makes k be looked at now: somebody has changed it.
func (w *watcher) hurry(k key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range []key{k, everything} {
		if v := w.views[k]; v != nil {
			v.rest = 0
		}
	}
	w.rouse()
}

// rouse makes run see what there is to look at now.
func (w *watcher) rouse() {
	select {
	case w.wake <- struct{}{}:
	default: // run has yet to see that there was something before, and will see all of it
	}
}

// change returns a channel that is closed with the next change.
func (w *watcher) change() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// tell wakes all who wait for a change. mu is held.
func (w *watcher) tell() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// run looks and listens until ctx ends.
func (w *watcher) run(ctx context.Context) {
	var hush func() // nil: nobody listens
	for ctx.Err() == nil {
		k, in, wanted := w.next(time.Now())
		var due <-chan time.Time
		switch {
		case !wanted && hush != nil:
			hush()
			hush = nil
		case wanted && hush == nil:
			hush = w.listenToAll(ctx)
		case wanted && in <= 0:
			w.look(ctx, k)
			continue
		case wanted:
			due = time.After(in)
		}
		if wanted && due == nil {
			continue
		}
		select {
		case <-w.wake:
		case <-due:
		case <-ctx.Done():
		}
	}
	if hush != nil {
		hush()
	}
}

// listenToAll listens until hush is called, which waits for the end of it.
func (w *watcher) listenToAll(ctx context.Context) (hush func()) {
	ctx, cancel := context.WithCancel(ctx)
	var ears sync.WaitGroup
	for _, l := range w.lockers {
		ears.Go(func() { w.listen(ctx, l) })
	}
	return func() {
		cancel()
		ears.Wait()
	}
}

// next returns what to look at next, and in how long. It drops what nobody wants to see any more.
func (w *watcher) next(now time.Time) (next key, in time.Duration, wanted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, v := range w.views {
		if now.Sub(v.asked) > linger {
			delete(w.views, k)
			continue
		}
		if due := v.looked.Add(v.rest).Sub(now); !wanted || due < in {
			next, in, wanted = k, due, true
		}
	}
	return next, in, wanted
}

// look looks at k.
func (w *watcher) look(ctx context.Context, k key) {
	w.mu.Lock()
	v := w.views[k]
	w.mu.Unlock()
	if v == nil {
		return // it gave way to another
	}
	soon := soonOne
	var seen *survey.Picture
	var state *fairlock.State
	var err error
	if k == everything {
		soon = soonAll
		seen, err = w.survey.Look(ctx)
	} else {
		seen, state, err = w.inspect(ctx, k, v)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.tell()
	v.looked = time.Now()
	if err != nil {
		if v.failed == nil {
			v.since = v.looked
		}
		v.failed, v.rest = err, again
		return
	}
	// Together, all views take no more of the server than one alone would.
	v.failed, v.rest = nil, max(soon, time.Duration(len(w.views))*seen.Next)
	if v.state = state; k == everything {
		v.picture = seen
		w.trails.all(seen, v.rest)
		return
	}
	v.rate = seen.Locks[0].Rate
	w.trails.add(k, newPoint(seen.At, seen.Locks[0].Waiting, v.rate, v.rest))
}

// inspect looks at one lock. The Picture has the lock only.
func (w *watcher) inspect(ctx context.Context, k key, v *view) (*survey.Picture, *fairlock.State, error) {
	v.pace.Begin(ctx)
	state, err := w.lockers[k.kind].Inspect(ctx, k.name)
	if err != nil {
		return nil, nil, err
	}
	seen := &survey.Picture{At: time.Now(), Locks: []survey.Lock{survey.NewLock(k.kind, state)}}
	seen.Spent, seen.Next = v.pace.End()
	v.rates.Add(seen)
	return seen, state, nil
}

// Why hand-overs cannot be heard.
const (
	unsupported = "On a cluster hand-overs cannot be heard, only seen by looking."
	refused     = "The server's ACL does not let this user hear of hand-overs (PSUBSCRIBE): they are only seen by looking."
)

// listen notes what the server tells the clients of locks of a kind, until ctx ends.
func (w *watcher) listen(ctx context.Context, l locks.Locker) {
	for ctx.Err() == nil {
		pause := again
		for o, err := range l.Overhear(ctx) {
			switch {
			case err == nil:
				w.deafen(l.Kind, "")
				w.hear(l.Kind, o)
			case errors.Is(err, errors.ErrUnsupported):
				w.deafen(l.Kind, unsupported)
				return
			case redis.HasErrorPrefix(err, "NOPERM"):
				w.deafen(l.Kind, refused)
				pause = refusedAgain
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// deafen notes why hand-overs of locks of a kind cannot be heard; "": they can.
func (w *watcher) deafen(kind, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deaf[kind] != why {
		w.deaf[kind] = why
		w.tell()
	}
}

// hear notes what was overheard.
func (w *watcher) hear(kind string, o fairlock.Overheard) {
	h, ok := newHappening(kind, o)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lately = h.before(w.lately)
	if v := w.views[key{kind, o.Name}]; v != nil {
		v.lately = h.before(v.lately)
	}
	w.tell()
}
