//go:build race

package majority

// raceDetector: the race detector makes everything many times slower, and has nothing to find here.
const raceDetector = true
