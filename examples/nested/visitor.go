package main

import (
	"context"
	"fmt"

	"github.com/fairlock/locks/fairlock"
)

// visitor is an instance of the service that wants the lock while another instance is deep in it.
type visitor struct {
	locker *fairlock.Locker
	queued chan int
	visit  chan visit
}

// visit is the result of a visit.
type visit struct {
	token    int64
	tooEarly bool // the other instance had not unlocked yet
	err      error
}

func newVisitor(locker *fairlock.Locker) *visitor {
	return &visitor{locker: locker, queued: make(chan int, 1), visit: make(chan visit, 1)}
}

// lineUp makes the visitor ask for the lock, and returns when the visitor waits.
func (v *visitor) lineUp(ctx context.Context, theirs *fairlock.Lease) error {
	ctx = context.WithoutCancel(ctx) // ctx ends with the layer of the other instance
	go func() {
		lease, err := v.locker.Lock(ctx, theirs.Name(), fairlock.OnQueued(func(position int) { v.queued <- position }))
		got := visit{lease.Token(), theirs.Depth() > 0, err}
		if err == nil {
			got.err = lease.Unlock(ctx)
		}
		v.visit <- got
	}()
	select {
	case <-v.queued:
		return nil
	case got := <-v.visit:
		return fmt.Errorf("the other instance did not wait: %+v", got)
	}
}

// comesIn waits until the visitor has had the lock.
func (v *visitor) comesIn() (visit, error) {
	got := <-v.visit
	return got, got.err
}
