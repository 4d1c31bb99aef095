package main

import (
	"context"
	"fmt"

	"github.com/fairlock/locks/fairlock"
)

// visitor is an instance of the service that wants the lock while another one is deep in it.
type visitor struct {
	locker *fairlock.Locker
	queued chan int
	visit  chan visit
}

// visit is how that went.
type visit struct {
	token    int64
	tooEarly bool // the other one had not unlocked
	err      error
}

func newVisitor(locker *fairlock.Locker) *visitor {
	return &visitor{locker: locker, queued: make(chan int, 1), visit: make(chan visit, 1)}
}

// lineUp has the visitor ask for the lock, and returns when it waits.
func (v *visitor) lineUp(ctx context.Context, theirs *fairlock.Lease) error {
	ctx = context.WithoutCancel(ctx) // which ends with their layer
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

// comesIn waits until the visitor has been in.
func (v *visitor) comesIn() (visit, error) {
	got := <-v.visit
	return got, got.err
}
