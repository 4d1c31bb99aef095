//go:build unix

package run

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// heralds are the signals that have a meaning for the command only.
var heralds = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}

// deafTo are the signals that are caught and dropped: a reader of our stderr who goes away must not
// be our end.
var deafTo = []os.Signal{syscall.SIGPIPE}

// dieOfInterrupt ends the process by SIGINT, unless it was started to ignore that.
func dieOfInterrupt() {
	signal.Reset(syscall.SIGINT)
	if syscall.Kill(syscall.Getpid(), syscall.SIGINT) == nil {
		time.Sleep(time.Second) // until it has come
	}
}
