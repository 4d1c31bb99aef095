package rules

import (
	"time"

	"github.com/fairlock/locks/lua"
)

// How often a client's waiters of one lock ask.
const (
	enterEvery = lua.Liveness / 3       // all of them
	blindEvery = time.Second            // as long as the server does not see the client's channel
	enterAgain = 5 * time.Millisecond   // no two requests of a line are closer
	askEvery   = 500 * time.Millisecond // the first of them, however short its claim
)

// AfterEnd is how long after a record's end its lock is free: a record lives through the server's
// millisecond in which it ends, and the client's clock has a part of one, too.
const AfterEnd = 2 * time.Millisecond

// Line says when one client's waiters of one lock ask the server, though nobody told them anything.
type Line struct {
	Due     time.Time // when the next request goes out
	Whole   time.Time // when all of them ask; before that, the first alone does
	Entered time.Time // when the last request went out
	Backoff time.Duration

	// What the last answer said.
	Holder string
	Free   time.Time // when the record ends unless it is renewed
	Length int
}

// NewLine returns the line of one waiter with that claim. Its first request went out just before
// now.
func NewLine(now time.Time, claim time.Duration) Line {
	return Line{Due: now.Add(asksEvery(claim)), Whole: now.Add(enterEvery), Entered: now}
}

// asksEvery is how often the first of a line asks when the present record ends, on behalf of all. A
// holder that dies before its first renewal has the lock for a claim, and nobody is told of its
// death. A waiter that asks before the claim is over learns when that is.
func asksEvery(claim time.Duration) time.Duration { return max(claim*5/6, askEvery) }

// EnterAt has all of the line ask at the given time, unless they ask sooner anyway.
func (ln *Line) EnterAt(at time.Time) {
	if at.Before(ln.Whole) {
		ln.Whole = at
	}
	ln.AskAt(at)
}

// AskAt is EnterAt for the first waiter alone: one is enough to notice that the lock is free.
func (ln *Line) AskAt(at time.Time) {
	if soonest := ln.Entered.Add(enterAgain); at.Before(soonest) {
		at = soonest
	}
	if at.Before(ln.Due) {
		ln.Due = at
	}
}

// Beat is called when the line is due, with the claim of its first waiter and the number of all. It
// reports whether the first asks alone.
func (ln *Line) Beat(now time.Time, claim time.Duration, waiting int) (alone bool) {
	ln.Entered = now
	alone = now.Before(ln.Whole) && waiting > 1
	if !alone {
		ln.Whole = now.Add(enterEvery)
	}
	ln.Due = now.Add(min(ln.Whole.Sub(now), asksEvery(claim)))
	return alone
}

// Answered takes in the answer to a request of the line. waits says that one of those who asked is
// in line. Answered reports whether the client is blind: it then has to look after its
// subscription.
func (ln *Line) Answered(e *lua.Entered, now time.Time, waits bool) (blind bool) {
	ln.Backoff = 0
	ln.Holder, ln.Length, ln.Free = e.Holder, e.Waiting, now.Add(e.Remaining)
	switch {
	case e.More:
		ln.EnterAt(now)
	case e.Remaining > 0:
		ln.AskAt(ln.Free.Add(AfterEnd)) // nobody tells the line that a holder died
	}
	if blind = !e.Heard && waits; blind {
		ln.EnterAt(now.Add(blindEvery))
	}
	return blind
}

// Failed takes in that a request of the line failed.
func (ln *Line) Failed(now time.Time) {
	ln.Backoff = min(max(2*ln.Backoff, 2*enterAgain), blindEvery)
	ln.EnterAt(now.Add(ln.Backoff))
}
