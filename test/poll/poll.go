// Package poll has tests look for what nothing tells them of.
package poll

import "time"

// Until looks until holds returns true, for as long as within, and returns what it saw last. It
// looks less and less often: a look may ask a server, and what else runs here needs the machine.
func Until(within time.Duration, holds func() bool) bool {
	const soonest, latest = time.Millisecond, 10 * time.Millisecond
	for began := time.Now(); !holds(); {
		waited := time.Since(began)
		if waited > within {
			return false
		}
		time.Sleep(min(soonest+waited/10, latest))
	}
	return true
}
