package faultproxy

import "sync"

// gate is what every byte passes on its way through the proxy. While the gate is frozen, nothing
// moves.
type gate struct {
	// A move holds mu for reading. So freeze, which needs mu for writing, returns only when no move
	// is under way.
	mu     sync.RWMutex
	thawed chan struct{} // guarded by mu; nil while open, else closed by thaw
}

func (g *gate) freeze(frozen bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case frozen && g.thawed == nil:
		g.thawed = make(chan struct{})
	case !frozen && g.thawed != nil:
		close(g.thawed)
		g.thawed = nil
	}
}

// pass runs move as soon as the gate is open. It returns false, without
// running it, if giveUp is closed before.
func (g *gate) pass(giveUp <-chan struct{}, move func()) bool {
	for {
		if isClosed(giveUp) {
			return false
		}
		thawed := g.try(move)
		if thawed == nil {
			return true
		}
		select {
		case <-thawed:
		case <-giveUp:
			return false
		}
	}
}

// try runs move if the gate is open, else returns what to wait for.
func (g *gate) try(move func()) (thawed <-chan struct{}) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.thawed == nil {
		move()
	}
	return g.thawed
}
