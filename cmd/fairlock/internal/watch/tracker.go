package watch

import (
	"slices"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// Tracker follows one lock and says what has happened to it. It takes a larger token for a later
// one. If it cannot know something, it says so.
type Tracker struct {
	lock   string
	begun  bool
	latest int64           // the largest token known to be granted
	holder *holder         // nil: the lock is free, as far as is known
	line   []waiter        // in order, without the waiters known to have left
	absent map[string]bool // waiters known to have left, though a look that was under way may still show them
	passed time.Time       // the place of the last waiter that was granted; zero: that one was not seen in line
	moved  bool            // there was a grant since the last look
	looked time.Time       // when the last look was sent
	forced int64           // the last token that was forced
	ended  time.Time       // when the last hold ended, as far as was told

	unseen time.Time // when an unseen hold was told whose token no look has shown yet; zero: of none

	damaged bool // the damage has been told

	at     time.Time // the time of what is being handled
	events []Event   // the events that follow from it
}

// waiter is a waiter in line.
type waiter struct {
	fairlock.Waiter
	came time.Time // by our clock
}

// holder is the holder of the lock.
type holder struct {
	owner, note string
	token       int64
	since       time.Time
	until       time.Time     // it holds the lock at least until then, unless it gives it back
	most        time.Duration // the longest remaining time seen: about the lease
	warned      bool
}

// NewTracker returns a Tracker for the lock of this name.
func NewTracker(lock string) *Tracker { return &Tracker{lock: lock, absent: make(map[string]bool)} }

// Hear handles what was overheard at a time, and returns the events that follow from it.
func (t *Tracker) Hear(o fairlock.Overheard, at time.Time) []Event {
	t.at, t.events = at, nil
	switch {
	case o.Kind == fairlock.Acquired && o.Token > t.latest:
		t.end()
		t.grant(Event{ID: o.ID, Owner: o.Owner, Note: o.Note, Token: o.Token}, o.ID)
		t.holder = &holder{owner: o.Owner, note: o.Note, token: o.Token, since: at, until: at.Add(o.Remaining), most: o.Remaining}
	case o.Kind == fairlock.Lost && o.Token > t.forced:
		e := Event{Kind: Forced, ID: o.ID, Owner: o.Owner, Note: o.Note, Token: o.Token}
		if t.holder != nil && t.holder.token == o.Token {
			e.Held = at.Sub(t.holder.since)
		}
		t.say(e)
		t.forced, t.holder, t.ended = o.Token, nil, at
		t.latest = max(t.latest, o.Token+1) // force uses up this token, so that the force can be seen
	case o.Kind == fairlock.GaveUp:
		e := Event{Kind: Evicted, ID: o.ID, Owner: o.Owner, Note: o.Note}
		if w, ok := t.leaves(o.ID); ok {
			e.Waited = at.Sub(w.came)
		}
		t.say(e)
	case o.Kind == fairlock.Released && t.holder != nil:
		t.finish(Released)
	case o.Kind == fairlock.Released && t.forced < t.latest-1:
		t.say(Event{Kind: Unseen})
		t.unseen = at
	}
	return t.events
}

// Look handles the state that the lock had at some time between sent and at. It returns the events
// that must have happened before.
func (t *Tracker) Look(s *fairlock.State, sent, at time.Time) []Event {
	t.at, t.events = at, nil
	if t.begun {
		t.seeHolder(s, sent)
		t.seeLine(s)
	} else {
		t.begins(s)
	}
	t.begun, t.looked, t.moved, t.passed = true, sent, false, time.Time{}
	if s.Damaged != nil && !t.damaged {
		t.say(Event{Kind: Damaged, Note: s.Damaged.Error()})
	}
	t.damaged = s.Damaged != nil
	return t.events
}

func (t *Tracker) begins(s *fairlock.State) {
	e := Event{Kind: Standing}
	t.latest = s.Token
	for _, w := range s.Waiters {
		t.line = append(t.line, waiter{w, t.at.Add(-w.Waited)})
	}
	if h := s.Holder; h != nil {
		t.latest = max(t.latest, h.Token)
		t.holder = t.seen(h)
		e.Owner, e.Note, e.Token, e.Held, e.Remaining = h.Owner, h.Note, h.Token, h.Held, h.Remaining
	}
	t.say(e)
}

// seen returns a holder that a look shows.
func (t *Tracker) seen(h *fairlock.Holder) *holder {
	return &holder{
		owner: h.Owner, note: h.Note, token: h.Token,
		since: t.at.Add(-h.Held), until: t.at.Add(h.Remaining), most: h.Remaining,
	}
}

func (t *Tracker) seeHolder(s *fairlock.State, sent time.Time) {
	h := s.Holder
	switch {
	case t.holder != nil && s.Token < t.holder.token && sent.Before(t.holder.since):
		return // the look is older than what was heard
	case t.holder == nil && h != nil && h.Token <= t.latest && sent.Before(t.ended):
		return // here, too
	case h == nil && t.holder == nil:
	case h == nil && s.Token < t.holder.token:
		t.finish(Forgotten)
	case h == nil:
		t.end()
	case t.holder != nil && h.Token == t.holder.token:
		t.stays(h)
	default:
		t.end()
		t.holder = t.seen(h)
		e := Event{Owner: h.Owner, Note: h.Note, Token: h.Token, Remaining: h.Remaining}
		switch {
		case h.Owner == "":
			e.Kind = Forgotten
			t.say(e)
		case h.Token <= t.latest:
			e.Kind = Renewed
			t.say(e)
		default:
			t.grant(e, t.waiterOf(h.Owner))
		}
	}
	if s.Token > t.latest {
		t.latest, t.moved, t.passed = s.Token, true, time.Time{}
		if t.unseen.IsZero() { // else its release was heard, and told without the token
			t.say(Event{Kind: Unseen, Token: s.Token})
		}
		t.unseen = time.Time{}
	}
	if !sent.Before(t.unseen) {
		t.unseen = time.Time{}
	}
}

// stays handles a look at a holder that was there before.
func (t *Tracker) stays(h *fairlock.Holder) {
	was := t.holder
	e := Event{Owner: h.Owner, Note: h.Note, Token: h.Token, Held: h.Held, Remaining: h.Remaining}
	switch {
	case h.Owner == "" && was.owner != "":
		e.Kind, e.Owner, e.Note = Forgotten, was.owner, was.note
	case h.Owner != "" && was.owner == "", was.warned && h.Remaining > was.most/2:
		e.Kind, was.warned = Renewed, false
	case h.Owner != "" && !was.warned && h.Remaining < was.most/3:
		e.Kind, was.warned = Expiring, true
	}
	was.owner, was.note, was.until, was.most = h.Owner, h.Note, t.at.Add(h.Remaining), max(was.most, h.Remaining)
	if e.Kind != "" {
		t.say(e)
	}
}

// end tells how the present hold must have ended, if there was one.
func (t *Tracker) end() {
	switch h := t.holder; {
	case h == nil:
	case t.at.Before(h.until):
		t.finish(Released)
	case t.at.Sub(t.looked) < h.most/2: // a renewal would have been seen
		t.finish(Expired)
	default:
		t.finish(Ended)
	}
}

func (t *Tracker) finish(how Kind) {
	h := t.holder
	t.say(Event{Kind: how, Owner: h.owner, Note: h.note, Token: h.token, Held: t.at.Sub(h.since)})
	t.holder, t.ended = nil, t.at
}

// grant tells that a caller has the lock. If the caller is known as a waiter, it leaves the line.
func (t *Tracker) grant(e Event, id string) {
	t.moved, t.passed = true, time.Time{}
	if w, ok := t.leaves(id); ok {
		t.passed = w.Since
		e.ID, e.Waited = id, t.at.Sub(w.came)
	}
	e.Kind = Granted
	t.latest = max(t.latest, e.Token)
	t.say(e)
}

// seeLine compares the line with the earlier one.
func (t *Tracker) seeLine(s *fairlock.State) {
	shown := make(map[string]bool, len(s.Waiters))
	for _, w := range s.Waiters {
		shown[w.ID] = true
	}
	known := make(map[string]bool, len(t.line))
	for _, w := range t.line {
		if known[w.ID] = true; shown[w.ID] {
			continue
		}
		kind := Left
		if t.moved && (t.passed.IsZero() || w.Since.Before(t.passed)) {
			kind = Gone // the waiter may have had its turn
		}
		t.say(Event{Kind: kind, ID: w.ID, Owner: w.Owner, Note: w.Note, Waited: t.at.Sub(w.came)})
	}
	t.line = t.line[:0]
	for i, w := range s.Waiters {
		if t.absent[w.ID] {
			continue
		}
		t.line = append(t.line, waiter{w, t.at.Add(-w.Waited)})
		if !known[w.ID] {
			t.say(Event{Kind: Came, ID: w.ID, Owner: w.Owner, Note: w.Note, Position: i + 1, Waited: w.Waited})
		}
	}
	for id := range t.absent {
		if !shown[id] {
			delete(t.absent, id)
		}
	}
	for i := range t.events {
		t.events[i].Waiting = len(t.line)
	}
}

// leaves removes a waiter from the line.
func (t *Tracker) leaves(id string) (w waiter, ok bool) {
	if id == "" {
		return w, false
	}
	t.absent[id] = true
	i := slices.IndexFunc(t.line, func(w waiter) bool { return w.ID == id })
	if i < 0 {
		return w, false
	}
	w = t.line[i]
	if i == 0 { // the usual case, and the line may be long
		t.line = t.line[1:]
	} else {
		t.line = slices.Delete(t.line, i, i+1)
	}
	return w, true
}

// waiterOf returns the ID of the first waiter of this owner, or "" if there is none.
func (t *Tracker) waiterOf(owner string) (id string) {
	for _, w := range t.line {
		if w.Owner == owner {
			return w.ID
		}
	}
	return ""
}

func (t *Tracker) say(e Event) {
	e.At, e.Lock, e.Waiting = t.at, t.lock, len(t.line)
	t.events = append(t.events, e)
}
