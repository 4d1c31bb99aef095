package rules

import (
	"time"

	"github.com/fairlock/locks/lua"
)

// How often a client's waiters of one lock ask.
const (
	enterEvery = 5 * time.Second        // all of them; a third of lua.Liveness
	blindEvery = time.Second            // as long as the server does not see the client's channel
	enterAgain = 5 * time.Millisecond   // no two requests of a line are closer
	askEvery   = 500 * time.Millisecond // the first of them, however short its claim
	askAfter   = 2 * time.Millisecond   // the end of a record: the server's millisecond, and ours
)

// Line is when one client's waiters of one lock ask the server, though nobody told them anything.
type Line struct {
	Due     time.Time // the next request goes out
	Whole   time.Time // all of them ask; before that, the first alone does
	Entered time.Time // the last request went out
	Backoff time.Duration

	// What the last answer said.
	Holder string
	Free   time.Time // when the record ends unless it is renewed
	Length int
}

// NewLine is the line of a waiter, with that claim, whose request went out a moment before now.
func NewLine(now time.Time, claim time.Duration) Line {
	return Line{Due: now.Add(asksEvery(claim)), Whole: now.Add(enterEvery), Entered: now}
}

// asksEvery is how often the first of a line asks, for all, when the present record ends. A holder
// that died before its first renewal had the lock for a claim, and nobody is told of its end:
// whoever asks within that time is there when it is over.
func asksEvery(claim time.Duration) time.Duration { return max(claim*5/6, askEvery) }

// EnterAt has all of the line ask at the given time, if they would not sooner. It reports whether
// Due is sooner now.
func (ln *Line) EnterAt(at time.Time) (sooner bool) {
	if at.Before(ln.Whole) {
		ln.Whole = at
	}
	return ln.AskAt(at)
}

// AskAt is EnterAt for the first alone: one is enough to notice that the lock is free.
func (ln *Line) AskAt(at time.Time) (sooner bool) {
	if soonest := ln.Entered.Add(enterAgain); at.Before(soonest) {
		at = soonest
	}
	if !at.Before(ln.Due) {
		return false
	}
	ln.Due = at
	return true
}

// Beat is called when the line is due, with the claim of its first and how many wait. It reports
// whether the first asks alone.
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
// in line. It reports whether Due is sooner now, and whether the subscription has to be looked
// after: the server does not see it.
func (ln *Line) Answered(e *lua.Entered, now time.Time, waits bool) (sooner, blind bool) {
	ln.Backoff = 0
	ln.Holder, ln.Length, ln.Free = e.Holder, e.Waiting, now.Add(e.Remaining)
	switch {
	case e.More:
		sooner = ln.EnterAt(now)
	case e.Remaining > 0:
		sooner = ln.AskAt(ln.Free.Add(askAfter)) // nobody else tells us that a holder died
	}
	if blind = !e.Heard && waits; blind {
		sooner = ln.EnterAt(now.Add(blindEvery)) || sooner
	}
	return sooner, blind
}

// Failed takes in that a request of the line failed. It reports whether Due is sooner now.
func (ln *Line) Failed(now time.Time) (sooner bool) {
	ln.Backoff = min(max(2*ln.Backoff, 2*enterAgain), blindEvery)
	return ln.EnterAt(now.Add(ln.Backoff))
}
