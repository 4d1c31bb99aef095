//go:build unix

package run

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// heralds are the signals that mean something only to the command.
var heralds = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}

// dieOfInterrupt ends the process by SIGINT, unless it was started to ignore SIGINT.
func dieOfInterrupt() {
	signal.Reset(syscall.SIGINT)
	if syscall.Kill(syscall.Getpid(), syscall.SIGINT) == nil {
		time.Sleep(time.Second) // until the signal has come
	}
}
