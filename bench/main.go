// Command bench measures Fairlock, other ways to lock, and what the wire itself allows: the same
// workloads in one run, with real processes and a server of its own.
//
//	go run ./bench -quick
//	go run ./bench -workloads handover,gap -peers fairlock,baton -repeats 3
//
// docs/performance.md says what is measured and how.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9/logging"

	"github.com/fairlock/locks/bench/host"
	"github.com/fairlock/locks/bench/report"
	"github.com/fairlock/locks/bench/workloads"
)

func main() {
	logging.Disable() // go-redis logs that servers are gone; here that is intended
	if len(os.Args) == 3 && os.Args[1] == host.WorkerArg {
		exit(work(os.Args[2]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(direct(ctx, os.Args[1:]))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// work runs a worker.
func work(text string) error {
	var job host.Job
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		return err
	}
	w, err := workloads.NewWorker(job)
	if err != nil {
		return err
	}
	return host.Work(w)
}

// direct runs the program when it is no worker.
func direct(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "smaller and shorter, all in less than two minutes: for while working")
	some := flags.String("workloads", "", "`names` of workloads, by commas; all")
	with := flags.String("peers", "", "`names` of peers, by commas; all")
	of := flags.String("cases", "", "`labels` of cases, by commas, as the tables show them; all")
	limit := flags.Duration("cap", 0, "how long to wait for the next holder after a kill, at most; 30 s, or 1.5 s with -quick")
	lease := flags.Duration("lease", 0, "of holders in the workload crash; 5 s, or 2 s with -quick")
	warm := flags.Int("warm", 0, "how many locks a JVM takes and gives back before it is measured; 40,000")
	repeats := flags.Int("repeats", 0, "how often each is measured; 5, or 1 with -quick")
	out := flags.String("out", "", "`directory` for results.json and a plot for each table; none")
	docs := flags.String("docs", "", "`document` whose marked sections are written again from the results in -out")
	only := flags.Bool("only-docs", false, "measure nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	results := report.Results{}
	if *out != "" {
		var err error
		if results, err = report.Load(*out); err != nil {
			return err
		}
	}
	var measured error
	if !*only {
		run := run{scale: workloads.Full, out: *out, results: &results}
		if *quick {
			run.scale = workloads.Quick
		}
		if *repeats > 0 {
			run.scale.Repeats = *repeats
		}
		run.scale.Cap = cmp.Or(*limit, run.scale.Cap)
		run.scale.Lease = cmp.Or(*lease, run.scale.Lease)
		run.scale.Warm = cmp.Or(*warm, run.scale.Warm)
		if err := run.choose(*some, *with, *of); err != nil {
			return err
		}
		measured = run.all(ctx)
	}
	if *docs == "" || ctx.Err() != nil {
		return measured
	}
	// Write even after a failure: the tables say which peer failed.
	return errors.Join(measured, results.Rewrite(*docs, plotsSeenFrom(*docs, *out)))
}
