package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fairlock/locks/examples/internal/stage"
	"github.com/fairlock/locks/fairlock"
)

// The results of a trial.
const (
	reenters = "re-enters"   // has the lock, as part of the present hold
	excluded = "is excluded" // would have to wait
	takesIt  = "takes it"    // the lock was free
	failed   = "failed"
)

// The ways in which a trial asks.
const (
	inPlace = false
	inChild = true
)

// trial is a caller that asks for a lock.
type trial struct {
	who    string
	locker *fairlock.Locker
	ctx    context.Context
	lock   string
	option fairlock.LockOption // may be nil
	child  bool                // in a goroutine of its own
	want   string
}

// trials makes trials and counts their results.
type trials struct {
	*stage.Stage
	token  int64 // of the present hold
	layers int
	seen   map[string]int // how often each result was seen
}

// layer prints a layer of the service.
func (t *trials) layer(name string, l *fairlock.Lease) {
	t.layers++
	t.Check(l.Depth() == t.layers, "layer %d has depth %d", t.layers, l.Depth())
	t.Say("  %-14s depth %d   token %d", name, l.Depth(), l.Token())
}

// try lets all callers ask. A caller that gets the lock keeps it until all have asked.
func (t *trials) try(all ...trial) {
	var leases []*fairlock.Lease
	defer func() {
		for _, lease := range leases {
			_ = lease.Unlock(context.Background()) // the lease of a failed call is nil
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
