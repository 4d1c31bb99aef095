//go:build !unix

package main

import "os"

// heralds and deafTo: see signals_unix.go. There are none here.
var heralds, deafTo []os.Signal
