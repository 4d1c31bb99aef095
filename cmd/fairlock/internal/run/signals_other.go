//go:build !unix

package run

import "os"

// heralds and deafTo: see signals_unix.go. There are none here.
var heralds, deafTo []os.Signal

func dieOfInterrupt() {}

func controlled() bool { return false }

func attended(int) bool { return true }
