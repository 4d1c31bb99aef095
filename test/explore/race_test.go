//go:build race

package explore

// raceDetector: the race detector makes everything many times slower, and here it has only the
// engines to look at.
const raceDetector = true
