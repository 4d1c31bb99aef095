//go:build unix

package main

import (
	"os"
	"syscall"
)

// heralds are the signals that have a meaning for the command only.
var heralds = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}

// deafTo are the signals that are caught and dropped: a reader of our stderr who goes away must not be our end.
var deafTo = []os.Signal{syscall.SIGPIPE}
