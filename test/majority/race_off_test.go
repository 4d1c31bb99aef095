//go:build !race

package majority

const raceDetector = false
