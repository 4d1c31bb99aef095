package main

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// endings are the signals that end the waiting for the lock. They and the heralds are passed on to the command.
var endings = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

func ends(s os.Signal) bool { return slices.Contains(endings, s) }

// catch has the signals sent to the channel, but for those that we were started to ignore (nohup, a shell's background
// job). The function ends that, but not the deafness.
func catch() (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 64) // a window that is being resized tells that many times
	for _, each := range slices.Concat(endings, heralds) {
		if !signal.Ignored(each) {
			signal.Notify(signals, each)
		}
	}
	for _, each := range deafTo {
		signal.Notify(make(chan os.Signal, 1), each)
	}
	return signals, func() { signal.Stop(signals) }
}

// number is n in 128+n.
func number(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}
