//go:build !race

package race

// Enabled reports whether the race detector looks on: it slows a test down several times.
const Enabled = false
