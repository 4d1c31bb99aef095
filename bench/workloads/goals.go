package workloads

import "errors"

var errNoSuchPeer = errors.New("no such peer")

// ours is the peer that the goals are about; the others are what it is compared with.
const (
	ours       = "fairlock"
	redissons  = "Redisson's"
	batonFloor = "baton"
	anyCase    = "" // the only case, or the first that was measured
)

// Goal is what a figure should be, with what it is.
type Goal struct {
	Text  string  `json:"text"`
	Value float64 `json:"value"`
	Known bool    `json:"known"` // both the figure and what it is compared with were measured
	Met   bool    `json:"met"`
}

func goal(text string, value func() (float64, bool), met func(float64) bool) Goal {
	v, known := value()
	return Goal{Text: text, Value: v, Known: known, Met: known && met(v)}
}

// slack forgives rounding: a figure that is shown as its bound meets the bound.
const slack = 1.0005

func atMost(bound float64) func(float64) bool {
	return func(v float64) bool { return v <= bound*slack }
}

func atLeast(bound float64) func(float64) bool {
	return func(v float64) bool { return v*slack >= bound }
}

func first(at Lookup, peer, key string) (float64, bool) { return at(peer, anyCase, key) }

// ratioIn divides a's figure by b's.
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
