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

// The monotonic clock stands still while a machine is suspended. The wall clock may be set back. So
// the times of a lease are compared by both clocks, and not by the methods of time.Time.

// Until is how long it is from now to end, by the clock by which that is less.
func Until(end, now time.Time) time.Duration {
	return min(end.Sub(now), end.Round(0).Sub(now.Round(0)))
}

// Passed reports whether end has come by either clock.
func Passed(end, now time.Time) bool { return Until(end, now) <= 0 }

// Since is how long ago at was, by the clock by which that is more.
func Since(at, now time.Time) time.Duration {
	return max(now.Sub(at), now.Round(0).Sub(at.Round(0)))
}

// Later reports whether an end is later than another by either clock. Of two ends that the server
// told, each is true, so the later one counts, even if it is the sooner one by the other clock.
func Later(end, other time.Time) bool {
	return end.After(other) || end.Round(0).After(other.Round(0))
}

// Term is how long a grant lasts by the client's clock.
type Term struct {
	Span time.Duration // what the record was written for: the lease, or a claim on it
	Ends time.Time     // the server does not give the lock away before this
}

// TrustEnds is when the client stops trusting the grant.
func (t Term) TrustEnds() time.Time { return t.Ends.Add(-Margin(t.Span)) }
