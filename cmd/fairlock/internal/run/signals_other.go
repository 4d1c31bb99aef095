//go:build !unix

package run

import "os"

// heralds and deafTo are empty on this system: see signals_unix.go.
var heralds, deafTo []os.Signal

func dieOfInterrupt() {}

func controlled() bool { return false }

func attended(int) bool { return true }
