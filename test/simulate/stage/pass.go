package stage

import "time"

// Pass lets so much time pass, but no more once one of the channels is closed; nil: it never is.
// Pass reports whether all of it has passed.
func Pass(d time.Duration, early, over <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-early:
	case <-over:
	}
	return false
}
