package workloads

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/fairlock/locks/bench/host"
)

// warm has each process make its first contact, which loads the scripts and makes the connections.
func (b *Bench) warm(ctx context.Context, hired []*host.Worker) error {
	return inEach(hired, func(i int, w *host.Worker) error {
		name := b.Key + "-warm-" + strconv.Itoa(i)
		if err := w.Call(ctx, "Acquire", name, new(int64)); err != nil {
			return err
		}
		return w.Call(ctx, "Release", name, new(int64))
	})
}

// atOnce makes n calls in goroutines of their own, all from that time on. It returns the processor
// time until the last has returned, and one of the errors.
func atOnce(n int, start time.Time, call func(i int) error) (time.Duration, error) {
	var all sync.WaitGroup
	failed := make(chan error, n)
	open := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-open
			if err := call(i); err != nil {
				failed <- err
			}
		})
	}
	time.Sleep(time.Until(start))
	before := host.CPU()
	close(open)
	all.Wait()
	cpu := host.CPU() - before
	close(failed)
	return cpu, <-failed
}
