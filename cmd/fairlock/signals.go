package main

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// endings are the signals that end fairlock, or its waiting for the lock. A command hears of them and of the heralds.
var endings = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

func ends(s os.Signal) bool { return slices.Contains(endings, s) }

// catch has these signals sent to the channel, but for those that we were started to ignore (nohup, a shell's background
// job). The function ends that.
func catch(these ...os.Signal) (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 64) // a window that is being resized tells that many times
	for _, each := range these {
		if !signal.Ignored(each) {
			signal.Notify(signals, each)
		}
	}
	return signals, func() { signal.Stop(signals) }
}

// deafen has the signals of deafTo dropped, for good.
func deafen() {
	for _, each := range deafTo {
		signal.Notify(make(chan os.Signal, 1), each)
	}
}

// number is n in 128+n.
func number(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}
