package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/locks/examples/internal/stage"
)

const perCustomer = 15 // jobs

var (
	customers = []string{"ada", "ben", "cleo", "dora"}
	workers   = []string{"A", "B", "C", "D", "E"}
	hanging   = job{Customer: "ben", Number: 5, Hangs: true}
)

// dispatcher hands out jobs as a message broker does: in the order in which they come, each to
// another worker. If a worker dies, other workers get the jobs that it has not acknowledged.
type dispatcher struct {
	*stage.Stage
	crew     *stage.Crew[event]
	workers  []*stage.Process
	incoming []job
	given    map[job]*stage.Process // the worker that has not acknowledged it
	turn     int                    // counts the jobs given, to pick the next worker
	last     job                    // the last job given
	inLine   bool                   // last stands in line, so that the next job will stand behind it

	busy   map[string]string // customer -> the worker that does one of its jobs
	killed *stage.Process
	struck time.Time
	freed  time.Duration // how long the next job of that customer had to wait then
	left   map[job]bool  // by the killed worker, without its acknowledgement
}

func play(ctx context.Context, s *stage.Stage) error {
	crew, err := stage.NewCrew[event](s)
	if err != nil {
		return err
	}
	d := &dispatcher{
		Stage: s, crew: crew, inLine: true,
		given: make(map[job]*stage.Process), busy: make(map[string]string), left: make(map[job]bool),
	}
	for _, name := range workers {
		p, err := crew.Start(name)
		if err != nil {
			return err
		}
		d.workers = append(d.workers, p)
	}
	for n := 1; n <= perCustomer; n++ {
		for _, customer := range customers {
			hangs := customer == hanging.Customer && n == hanging.Number
			d.incoming = append(d.incoming, job{customer, n, hangs})
		}
	}
	s.Say("%d jobs of %d customers come in, one after the other, for %d worker processes.", len(d.incoming), len(customers), len(workers))
	s.Say("Each column is a customer: which job is done, and by whom.\n")
	for len(d.incoming)+len(d.given) > 0 {
		if len(d.incoming) > 0 && d.inLine {
			d.give()
		}
		if err := d.follow(ctx); err != nil {
			return err
		}
	}
	return d.audit(ctx)
}

// give gives the next job to the next worker.
func (d *dispatcher) give() {
	to := d.workers[d.turn%len(d.workers)]
	d.turn++
	d.last, d.incoming = d.incoming[0], d.incoming[1:]
	d.given[d.last], d.inLine = to, false
	to.Send(d.last)
}

// follow handles an event of a worker.
func (d *dispatcher) follow(ctx context.Context) error {
	e, err := d.crew.Next(ctx)
	if err != nil {
		return err
	}
	if e.Job == d.last {
		d.inLine = true
	}
	switch e.What {
	case begun:
		d.begins(e)
	case done:
		delete(d.busy, e.Job.Customer)
		d.show(e)
	case acked:
		delete(d.given, e.Job)
	}
	return nil
}

// begins checks that no other worker does a job of the customer.
func (d *dispatcher) begins(e event) {
	customer := e.Job.Customer
	other := d.busy[customer]
	d.Check(other == "" || d.isDead(other), "workers %s and %s worked for %s at the same time", other, e.Worker, customer)
	d.busy[customer] = e.Worker
	if d.killed != nil && d.freed == 0 && customer == hanging.Customer {
		d.freed = time.Since(d.struck)
	}
	if e.Job == hanging {
		d.strike(e)
	}
}

func (d *dispatcher) isDead(worker string) bool { return d.killed != nil && d.killed.Name == worker }

// strike kills the worker that hangs. The jobs of that worker come in again.
func (d *dispatcher) strike(e event) {
	d.killed, d.struck = d.given[e.Job], time.Now()
	d.killed.Kill()
	d.workers = slices.DeleteFunc(d.workers, func(p *stage.Process) bool { return p == d.killed })
	for j, holder := range d.given {
		if holder == d.killed {
			delete(d.given, j)
			d.inLine = d.inLine || j == d.last
			j.Hangs = false
			d.left[j] = true
			d.incoming = append(d.incoming, j)
		}
	}
	d.Say("%s", stage.Red(fmt.Sprintf("worker %s hangs in job %d of %s: kill -9 of process %d, which has %d more jobs in line",
		e.Worker, e.For, e.Job.Customer, d.killed.PID(), len(d.left)-1)))
}

// show prints a job that is done. It checks that the job was done in its turn, unless the killed
// worker had left the job.
func (d *dispatcher) show(e event) {
	remark := ""
	if d.left[job{Customer: e.Job.Customer, Number: e.For}] {
		remark = " left by " + d.killed.Name
	} else {
		d.Check(e.For == e.Job.Number, "job %d of %s was done when it was the turn of job %d", e.For, e.Job.Customer, e.Job.Number)
	}
	column := strings.Repeat(" ", 20*slices.Index(customers, e.Job.Customer))
	d.Say("%s%-4s %2d %s%s", column, e.Job.Customer, e.For, stage.Name("by", e.Worker), stage.Dim(remark))
}

// audit checks the ledger.
func (d *dispatcher) audit(ctx context.Context) error {
	inOrder := 0
	for _, customer := range customers {
		entries, err := ledger{d.Redis, d.Prefix}.all(ctx, customer)
		if err != nil {
			return err
		}
		d.Check(len(entries) == perCustomer, "%d jobs of %s were done", len(entries), customer)
		for i, entry := range entries {
			number, _, _ := strings.Cut(entry, " ")
			d.Check(number == fmt.Sprint(i+1), "the customer %s had job %s done as number %d", customer, number, i+1)
			inOrder++
		}
	}
	return d.Audit("%d jobs done, each customer's in order and one at a time; %d were left by worker %s; the lock that it held was free after %.1f s",
		inOrder, len(d.left), d.killed.Name, d.freed.Seconds())
}
