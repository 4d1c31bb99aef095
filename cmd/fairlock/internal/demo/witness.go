package demo

import (
	"fmt"
	"time"
)

// witness sees the events of each lock in the order in which they happened, and judges them.
type witness struct {
	inside     map[string]int   // how many callers are in
	exits      map[string]event // the last event of leaving
	tokens     map[string]int64 // the largest token
	grants     int
	inversions int // found by the scenarios
	overlaps   int
	handovers  []time.Duration // from unlock to grant, if the next caller was waiting
	broken     []string        // promises that were broken
}

func newWitness() *witness {
	return &witness{inside: make(map[string]int), exits: make(map[string]event), tokens: make(map[string]int64)}
}

// see handles an event.
func (w *witness) see(e event) {
	switch e.Kind {
	case onEntered:
		w.enters(e)
	case onLeft:
		w.inside[e.Lock]--
		w.exits[e.Lock] = e
	}
}

func (w *witness) enters(e event) {
	w.grants++
	if w.inside[e.Lock] > 0 {
		w.overlaps++
	}
	w.inside[e.Lock]++
	if e.Token <= w.tokens[e.Lock] {
		w.breaks("%s was given token %d after %d", e.Who, e.Token, w.tokens[e.Lock])
	}
	w.tokens[e.Lock] = max(w.tokens[e.Lock], e.Token)
	if exit, ok := w.exits[e.Lock]; ok && e.Asked < exit.At {
		w.handovers = append(w.handovers, handed(exit, e))
	}
}

// handed returns the time from an unlock to the next grant.
func handed(exit, entry event) time.Duration { return time.Duration(entry.At - exit.At) }

// breaks notes a broken promise.
func (w *witness) breaks(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

// order compares the order of grants with the server's line.
type order struct {
	places     map[string]int // in the line, by note
	last       int            // the last place that was granted
	inversions int
}

// newOrder takes the line as it was seen. A caller that is not in it came later.
func newOrder(line []string) *order {
	o := &order{places: make(map[string]int), last: -1}
	for i, who := range line {
		o.places[who] = i
	}
	return o
}

// serve notes a grant to who.
func (o *order) serve(who string) {
	place, ok := o.places[who]
	if !ok {
		place = len(o.places)
	}
	if place < o.last {
		o.inversions++
	}
	o.last = max(o.last, place)
}
