//go:build race

package explore

// raceDetector: it makes everything many times slower, and there is nothing of it to see here but the engines.
const raceDetector = true
