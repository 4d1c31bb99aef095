package main

import (
	"os"
	"os/signal"
	"syscall"
)

// catch has SIGINT, SIGTERM and SIGHUP sent to the channel, but for those that we were started to ignore (nohup, a
// shell's background job). The function ends that.
func catch() (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 8)
	for _, each := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(each) {
			signal.Notify(signals, each)
		}
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
