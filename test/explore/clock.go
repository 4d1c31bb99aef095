package explore

import (
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// The rules of the client take times of two clocks. Here both are the same one, and it is always
// now: a client's now, and the server's nowUS. Within a millisecond of the server the microseconds
// are the order of what was executed.
var (
	now     = time.UnixMilli(nowMS).UTC()
	heardAt = now.Add(999 * time.Microsecond) // after all that the server did in this millisecond
)

// then is the time that is so far from now.
func then(d ms) time.Time { return now.Add(span(d)) }

// span is a time in the words of the rules.
func span(d ms) time.Duration { return time.Duration(d) * time.Millisecond }

// from is how far a time is from now: of a part of a millisecond, what is sooner.
func from(t time.Time) ms { return ms(t.UnixMilli() - nowMS) }

// executed is the server's time of what was executed so far from now, as that in its order.
func executed(d ms, stamp int16) lua.Micros { return nowUS + 1000*lua.Micros(d) + lua.Micros(stamp) }

// sighting is what an answer on its way tells of the clocks.
func (f *flight) sighting(sent ms) rules.Sighting {
	s := rules.Sighting{Sent: then(sent), At: executed(f.sent+f.lag, f.stamp)}
	if f.session {
		s.Session = session
	}
	return s
}

// session is the present one of every subscription; 0 is any before.
const session = 1

// lag, age and stamp are what a waiter's last sighting says: how long its request was on its way,
// how long ago it was executed, and in which order.
func parts(s *rules.Sighting) (lag, age ms, stamp int16) {
	at := int64(s.At - nowUS)
	stamp = int16((at%1000 + 1000) % 1000)
	age = ms((at - int64(stamp)) / 1000)
	return age - from(s.Sent), age, stamp
}

// joined is the inverse of parts.
func joined(lag, age ms, stamp int16, of uint64) rules.Sighting {
	return rules.Sighting{Sent: then(age - lag), At: executed(age, stamp), Session: of}
}
