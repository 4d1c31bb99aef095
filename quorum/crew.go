package quorum

import "github.com/fairlock/locks/internal/engine"

// crew runs requests in goroutines that stay for the next request: a request needs a stack that a
// new goroutine would have to grow. Close of the Locker ends them and waits for them.
type crew struct {
	spawn func(func()) // starts a goroutine that Close waits for
	ended <-chan struct{}
	jobs  chan func()   // has no room: whoever receives is idle
	idle  chan struct{} // a token for each goroutine that may be idle
}

func newCrew(core *engine.Core, ended <-chan struct{}, most int) *crew {
	return &crew{core.Go, ended, make(chan func()), make(chan struct{}, most)}
}

// run runs a job at once.
func (c *crew) run(job func()) {
	select {
	case c.jobs <- job:
	default:
		c.spawn(func() { c.work(job) })
	}
}

// work runs a job, and others that come while the goroutine is idle.
func (c *crew) work(job func()) {
	for {
		job()
		select {
		case c.idle <- struct{}{}:
		default:
			return // enough are idle
		}
		select {
		case job = <-c.jobs:
		case <-c.ended:
			return
		}
		<-c.idle
	}
}
