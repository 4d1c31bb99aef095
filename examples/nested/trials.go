package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fairlock/locks/examples/internal/stage"
	"github.com/fairlock/locks/fairlock"
)

// What comes of a trial.
const (
	reenters = "re-enters"   // has it, as part of the ownership that there is
	excluded = "is excluded" // would have to wait
	takesIt  = "takes it"    // it was free
	failed   = "failed"
)

// How a trial asks.
const (
	inPlace = false
	inChild = true
)

// trial is somebody who asks for a lock.
type trial struct {
	who    string
	locker *fairlock.Locker
	ctx    context.Context
	lock   string
	option fairlock.LockOption // may be nil
	child  bool                // in a goroutine of its own
	want   string
}

// trials is what is tried, and what came of it.
type trials struct {
	*stage.Stage
	token  int64 // of the ownership that there is
	layers int
	seen   map[string]int // what came of the trials
}

// layer shows a layer of the service.
func (t *trials) layer(name string, l *fairlock.Lease) {
	t.layers++
	t.Check(l.Depth() == t.layers, "layer %d has depth %d", t.layers, l.Depth())
	t.Say("  %-14s depth %d   token %d", name, l.Depth(), l.Token())
}

// try has all ask. Those that have the lock keep it until all have asked.
func (t *trials) try(all ...trial) {
	var leases []*fairlock.Lease
	defer func() {
		for _, lease := range leases {
			_ = lease.Unlock(context.Background()) // that of a call that failed is nil
		}
	}()
	for _, one := range all {
		lease, err := one.ask()
		leases = append(leases, lease)
		result, remark := t.judge(lease, err)
		t.seen[result]++
		t.Check(result == one.want, "%s %s", one.who, result)
		mark := stage.Green
		if result == excluded {
			mark = stage.Red
		}
		t.Say("  %-50s %s %s", one.who, mark(fmt.Sprintf("%-12s", result)), stage.Dim(remark))
	}
}

func (a trial) ask() (lease *fairlock.Lease, err error) {
	var options []fairlock.LockOption
	if a.option != nil {
		options = append(options, a.option)
	}
	ask := func() { lease, err = a.locker.TryLock(a.ctx, a.lock, options...) }
	if a.child {
		var child sync.WaitGroup
		child.Go(ask)
		child.Wait()
	} else {
		ask()
	}
	return lease, err
}

func (t *trials) judge(lease *fairlock.Lease, err error) (result, remark string) {
	var held *fairlock.HeldError
	switch {
	case errors.As(err, &held):
		return excluded, ""
	case err != nil:
		return failed, err.Error()
	case lease.Depth() == 1:
		t.Check(lease.Token() != t.token, "a lock that was free has the token of another")
		return takesIt, ""
	default:
		t.Check(lease.Token() == t.token, "re-entered with token %d a lock that is held with token %d", lease.Token(), t.token)
		return reenters, fmt.Sprintf("depth %d", lease.Depth())
	}
}
