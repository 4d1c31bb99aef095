package engine

import "sync"

// IsClosed reports whether c is closed. Nobody sends on it.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Refuse closes those of the channels that are still open, under the mutex that guards them.
func Refuse(mu sync.Locker, all ...chan struct{}) {
	mu.Lock()
	defer mu.Unlock()
	for _, c := range all {
		if !IsClosed(c) {
			close(c)
		}
	}
}
