package workloads

import "errors"

var errNoSuchPeer = errors.New("no such peer")

// ours is the peer that the goals are about; the others are those that they are measured by.
const (
	ours       = "fairlock"
	redissons  = "Redisson's"
	batonFloor = "baton"
	anyCase    = "" // the only one, or the first that was measured
)

// Goal is what a figure should be, and is.
type Goal struct {
	Text  string  `json:"text"`
	Value float64 `json:"value"`
	Known bool    `json:"known"` // it was measured, and so was what it is compared with
	Met   bool    `json:"met"`
}

func goal(text string, value func() (float64, bool), met func(float64) bool) Goal {
	v, known := value()
	return Goal{Text: text, Value: v, Known: known, Met: known && met(v)}
}

// Rounding is no failure: what is shown as the bound meets it.
const slack = 1.0005

func atMost(bound float64) func(float64) bool {
	return func(v float64) bool { return v <= bound*slack }
}

func atLeast(bound float64) func(float64) bool {
	return func(v float64) bool { return v*slack >= bound }
}

func first(at Lookup, peer, key string) (float64, bool) { return at(peer, anyCase, key) }

// ratioIn is a's figure in terms of b's.
func ratioIn(at Lookup, label, key, a, b string) func() (float64, bool) {
	return func() (float64, bool) {
		x, ok := at(a, label, key)
		y, ok2 := at(b, label, key)
		if !ok || !ok2 || y == 0 {
			return 0, false
		}
		return x / y, true
	}
}

func ratio(at Lookup, text, key, a, b string, most float64) Goal {
	return goal(text, ratioIn(at, anyCase, key, a, b), atMost(most))
}

func ratioLeast(at Lookup, text, key, a, b string, least float64) Goal {
	return goal(text, ratioIn(at, anyCase, key, a, b), atLeast(least))
}
