package stage

import "time"

// AtOnce is how far apart things may be seen that happen at one instant: a context that ends with a
// Deadline, a Lease that a call gives as Close returns. Steps at one instant have no order.
const AtOnce = 5 * time.Millisecond

// Arrival returns how long until a frame sent now arrives, behind those sent before it.
func Arrival(d time.Duration, last *time.Time) time.Duration {
	at := time.Now().Add(d)
	if !at.After(*last) {
		at = last.Add(1)
	}
	*last = at
	return time.Until(at)
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Earlier returns the earlier of two times.
func Earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
