//go:build !race

// Package race says whether the race detector looks on.
package race

// Enabled reports whether the race detector looks on: it slows a test down several times.
const Enabled = false
