// Command jobs lets several worker processes do the jobs of several customers. The jobs of one
// customer are done one at a time, strictly in the order in which they came, by whatever worker.
// The jobs of different customers are done side by side. On the way one of the workers hangs in a
// job and is killed.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/locks/examples/internal/stage"
	"github.com/fairlock/locks/fairlock"
)

const (
	leaseTime = 4 * time.Second       // how long a customer's jobs stand still when their worker is killed
	effort    = 40 * time.Millisecond // the time that a job takes
)

func main() { stage.Main(play, work) }

// job is handed to a worker as soon as it comes in.
type job struct {
	Customer string
	Number   int  // from 1, for each customer
	Hangs    bool // its first worker does not come to an end
}

// event is what a worker tells.
type event struct {
	Worker string
	What   what
	Job    job
	For    int // the number of the job done: that of Job, or of an earlier job that a dead worker left
}

type what string

const (
	queued what = "queued" // in line behind the customer's earlier jobs
	begun  what = "begun"
	done   what = "done"
	acked  what = "acked" // the job need not be given to a worker again
)

// worker is one of the processes.
type worker struct {
	name   string
	locker *fairlock.Locker
	ledger ledger
	tell   func(event)
}

// work does the jobs that the worker is given, those of different customers side by side.
func work(ctx context.Context, s *stage.Stage, name string) error {
	locker := fairlock.New(s.Redis, fairlock.WithPrefix(s.Prefix), fairlock.WithLease(leaseTime))
	defer locker.Close()
	w := &worker{name, locker, ledger{s.Redis, s.Prefix}, func(e event) { e.Worker = name; s.Tell(e) }}
	jobs, ctx := errgroup.WithContext(ctx)
	for j := range stage.Orders[job](ctx, s) {
		jobs.Go(func() error {
			err := w.do(ctx, j)
			for errors.Is(err, fairlock.ErrLost) { // this process stood still for too long: stand in line again
				err = w.do(ctx, j)
			}
			return err
		})
	}
	return jobs.Wait()
}

// do does a job in its turn. The line for the customer's lock is the queue of the customer's jobs:
// the first call of Lock is the first to be granted.
func (w *worker) do(ctx context.Context, j job) error {
	isQueued := fairlock.OnQueued(func(int) { w.tell(event{What: queued, Job: j}) })
	err := w.locker.Do(ctx, "customer:"+j.Customer, func(ctx context.Context, lease *fairlock.Lease) error {
		// All earlier jobs are done, unless a worker has died. Its jobs come first.
		next, err := w.ledger.next(ctx, j.Customer)
		for ; err == nil && next <= j.Number; next++ {
			err = w.step(ctx, j, next, lease.Token())
		}
		return err
	}, isQueued, fairlock.Note(fmt.Sprintf("job %d by worker %s", j.Number, w.name)))
	if err != nil {
		return err
	}
	w.tell(event{What: acked, Job: j})
	return nil
}

// step does the work itself. ctx ends when the lock can no longer be trusted. Even if the worker
// noticed that too late, the ledger would refuse its old token.
func (w *worker) step(ctx context.Context, j job, number int, token int64) error {
	w.tell(event{What: begun, Job: j, For: number})
	finished := time.After(effort)
	if j.Hangs {
		finished = nil
	}
	select {
	case <-finished:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := w.ledger.enter(ctx, j.Customer, number, w.name, token); err != nil {
		return err
	}
	w.tell(event{What: done, Job: j, For: number})
	return nil
}
