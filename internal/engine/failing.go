package engine

import "time"

const (
	failsFor     = 10 * time.Second // a restart, or a failover, is over by then
	complainEach = time.Minute      // of all locks together
)

// Failing is what the last request of those who wait for one lock failed with, and since when such
// requests have failed. Its Locker's mutex guards it.
type Failing struct {
	Last  error // nil: it was answered
	since time.Time
}

// Note takes in that one more has failed. The waiters go on, and nothing else may tell of it.
// Behind Sentinel, a replica that is taken for the master refuses scripts, and answers all else.
func (f *Failing) Note(c *Core, name string, err error) {
	f.Last = err
	now := time.Now()
	if f.since.IsZero() {
		f.since = now
	}
	last := c.complained.Load()
	if now.Sub(f.since) < failsFor || last != 0 && now.UnixNano()-last < int64(complainEach) ||
		!c.complained.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	c.Settings.Logger.Warn("fairlock: requests for a lock fail, and its waiters go on", "lock", name, "for", now.Sub(f.since), "error", err)
}

// Over notes that one was answered.
func (f *Failing) Over() { *f = Failing{} }
