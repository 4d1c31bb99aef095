//go:build !unix

package run

import "os"

// heralds are none on this system: see signals_unix.go.
var heralds []os.Signal

func dieOfInterrupt() {}

func controlled() bool { return false }

func attended(int) bool { return true }
