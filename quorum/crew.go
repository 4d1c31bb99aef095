package quorum

import (
	"sync"

	"github.com/fairlock/locks/internal/engine"
)

// crew runs requests in goroutines that stay for the next request: a request needs a stack that a
// new goroutine would have to grow. Close of the Locker ends them and waits for them.
type crew struct {
	spawn func(func()) // starts a goroutine that Close waits for
	most  int          // that may be idle

	mu    sync.Mutex // guards what follows; no job runs under it
	idle  []chan func()
	ended bool
}

func newCrew(core *engine.Core, most int) *crew { return &crew{spawn: core.Go, most: most} }

// run runs a job at once, in the goroutine that was busy last: its stack is the warmest.
func (c *crew) run(job func()) {
	c.mu.Lock()
	n := len(c.idle) - 1
	if n < 0 {
		c.mu.Unlock()
		c.spawn(func() { c.work(job) })
		return
	}
	jobs := c.idle[n]
	c.idle = c.idle[:n]
	c.mu.Unlock()
	jobs <- job // it has room
}

// work runs a job, and others that come while the goroutine is idle.
func (c *crew) work(job func()) {
	jobs := make(chan func(), 1)
	job()
	for c.rests(jobs) {
		job, ok := <-jobs
		if !ok {
			return
		}
		job()
	}
}

// rests reports whether a goroutine is to wait for another job, which comes by that channel.
func (c *crew) rests(jobs chan func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || len(c.idle) == c.most {
		return false
	}
	c.idle = append(c.idle, jobs)
	return true
}

// end ends the goroutines that are idle, and others as soon as they are.
func (c *crew) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, jobs := range c.idle {
		close(jobs)
	}
	c.idle = nil
}
