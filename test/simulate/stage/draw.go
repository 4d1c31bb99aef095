package stage

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Draw returns a random stream for one thing that happens at a time, since the beginning, to the
// given parts. The stream does not depend on earlier draws.
func Draw(seed uint64, at time.Duration, parts ...uint64) *rand.Rand {
	sum := uint64(at) //nolint:gosec // it is not negative
	for _, part := range parts {
		sum = Mix(sum ^ part*0x9e3779b97f4a7c15)
	}
	return rand.New(rand.NewPCG(seed, sum))
}

// Mix is the finaliser of SplitMix64.
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Contents sums up a request. The order of its parts does not count, because what a map lists has
// no order. Nor does the text of a script: a change there would give each seed another run.
func Contents(args []string) (sum uint64) {
	for i, arg := range args {
		if i == 1 && Evaluates(args) {
			continue
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(arg))
		sum += Mix(h.Sum64())
	}
	return sum
}

// Span draws a time between two others.
func Span(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}
