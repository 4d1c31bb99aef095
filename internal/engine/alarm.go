package engine

import "time"

// Alarm is a timer that only moves earlier, until it goes off. The mutex of its owner guards it.
type Alarm struct {
	timer *time.Timer
	at    time.Time // the timer goes off; zero: it has
}

// NewAlarm returns an Alarm that goes off at the given time. f then runs in a goroutine of its own,
// and calls WentOff.
func NewAlarm(at time.Time, f func()) *Alarm {
	return &Alarm{time.AfterFunc(time.Until(at), f), at}
}

// IsBy reports whether the alarm goes off at the given time or sooner.
func (a *Alarm) IsBy(at time.Time) bool { return !a.at.IsZero() && !at.Before(a.at) }

// By has the alarm go off at the given time, unless it does so sooner anyway.
func (a *Alarm) By(at time.Time) {
	if !a.IsBy(at) {
		a.at = at
		a.timer.Reset(time.Until(at))
	}
}

// WentOff notes that the alarm has gone off. The next By sets it again.
func (a *Alarm) WentOff() { a.at = time.Time{} }

// Stop keeps the alarm from going off.
func (a *Alarm) Stop() { a.timer.Stop() }
