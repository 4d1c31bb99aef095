package reentrant

import "time"

// Margin is how much earlier than the server a client ends its trust in a lease or claim of length d: a tenth, at
// least 10 ms, at most a minute. It pays for clocks that run apart and for the time it takes to stop.
func Margin(d time.Duration) time.Duration {
	return min(max(d/10, 10*time.Millisecond), time.Minute)
}

// asked is the lease to ask for so that trust lasts at least d.
func asked(d time.Duration) time.Duration {
	lease := max(d+d/9, d+10*time.Millisecond)
	return min(lease, d+time.Minute) + time.Millisecond
}

// passed reports whether end has come by either clock. The monotonic one stands still while a machine is suspended,
// the wall clock may be set back; whichever is further decides.
func passed(end, now time.Time) bool {
	return !now.Before(end) || !now.Round(0).Before(end.Round(0))
}
