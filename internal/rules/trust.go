package rules

import "time"

// long is a time over which clocks are not expected to run apart by a tenth any more.
const long = 10 * time.Minute

// Margin is how much earlier than the server a client ends its trust in a lease or claim of
// length d: a tenth of its first ten minutes and a hundredth of the rest, at least 10 ms. The
// margin pays for clocks that run apart, and for the time that stopping takes.
func Margin(d time.Duration) time.Duration {
	return max(min(d/10, long/10+(d-long)/100), 10*time.Millisecond)
}

// LeaseToTrust is the lease to ask for so that trust lasts at least d. The millisecond more pays
// for what the divisions drop, and for what the server is not told: it counts whole milliseconds.
func LeaseToTrust(d time.Duration) time.Duration {
	const trusted = long - long/10
	lease := min(max(d+d/9, d+10*time.Millisecond), long+(d-trusted)/99*100)
	return lease + time.Millisecond
}

// Passed reports whether end has come by either clock. The monotonic clock stands still while a
// machine is suspended, and the wall clock may be set back: the one that is ahead decides.
func Passed(end, now time.Time) bool {
	return !now.Before(end) || !now.Round(0).Before(end.Round(0))
}

// Term is how long a grant lasts by the client's clock.
type Term struct {
	Span time.Duration // what the record was written for: the lease, or a claim on it
	Ends time.Time     // the server does not give the lock away before this
}

// TrustEnds is when the client stops trusting the grant.
func (t Term) TrustEnds() time.Time { return t.Ends.Add(-Margin(t.Span)) }
