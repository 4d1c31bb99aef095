package explore

import (
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// The rules of the client take times of two clocks, the client's and the server's. Here both clocks
// show the same time, and that time is always now: the client's now, and the server's nowUS. Within
// a millisecond of the server, the microseconds number the executions in their order.
var (
	now     = time.UnixMilli(nowMS).UTC()
	heardAt = now.Add(999 * time.Microsecond) // after everything that the server did in this millisecond
)

// then returns the time at this distance from now.
func then(d ms) time.Time { return now.Add(span(d)) }

// span returns a time as the rules count it.
func span(d ms) time.Duration { return time.Duration(d) * time.Millisecond }

// from returns how far a time is from now. A part of a millisecond is rounded down.
func from(t time.Time) ms { return ms(t.UnixMilli() - nowMS) }

// executed returns the server's time of an execution: d from now, and then by the order of
// executions.
func executed(d ms, stamp int16) lua.Micros { return nowUS + 1000*lua.Micros(d) + lua.Micros(stamp) }

// clocks returns what an answer on its way says of the clocks.
func (f *flight) clocks(sent ms) rules.ClockPair {
	s := rules.ClockPair{Sent: then(sent), At: executed(f.sent+f.lag, f.stamp)}
	if f.session {
		s.Session = session
	}
	return s
}

// session is the present session of every subscription; 0 is any earlier session.
const session = 1

// parts splits a waiter's last ClockPair: how long its request was on its way, how long ago the
// server executed the request, and the number of that execution.
func parts(s *rules.ClockPair) (lag, age ms, stamp int16) {
	at := int64(s.At - nowUS)
	stamp = int16((at%1000 + 1000) % 1000)
	age = ms((at - int64(stamp)) / 1000)
	return age - from(s.Sent), age, stamp
}

// joined is the inverse of parts.
func joined(lag, age ms, stamp int16, of uint64) rules.ClockPair {
	return rules.ClockPair{Sent: then(age - lag), At: executed(age, stamp), Session: of}
}
