package simulate

import "time"

// Once in a while all actors come for one lock, again and again, each for no time to speak of.
// Otherwise there would hardly be a turn on the hold of another call.
const (
	rushEvery = 15 * time.Second
	rushFor   = 200 * time.Millisecond
)

// rush returns the lock that all come for now, or "" and the time until they do.
func (w *World) rush() (name string, in time.Duration) {
	n, since := time.Since(w.start)/rushEvery, time.Since(w.start)%rushEvery
	if since < rushFor && n > 0 {
		return w.names[int(n)%len(w.names)], 0
	}
	return "", rushEvery - since
}

// pause is how long the actor has nothing to do. In a rush, one whose calls fail at once does not
// make them as fast as they fail.
func (a *actor) pause() time.Duration {
	name, in := a.w.rush()
	switch {
	case name != "" && a.failed:
		return a.upTo(rushFor)
	case name != "":
		return a.upTo(5 * time.Millisecond)
	}
	return min(a.upTo(3*time.Second), in+a.upTo(20*time.Millisecond))
}
