package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
)

// Worker is "fairlock demo-worker". The demo starts its own program with it.
type Worker struct {
	Number int `arg:""`
}

// Run obeys until standard input ends, which also happens when the demo dies.
func (v *Worker) Run() error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP) // the demo gets these, too, and ends us
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := &worker{ctx: ctx, number: v.Number, out: json.NewEncoder(os.Stdout), waiting: make(map[string]chan request)}
	err := w.obey(json.NewDecoder(os.Stdin))
	cancel()
	w.tasks.Wait()
	w.close()
	return err
}

// worker is a worker process of the demo, as the process sees itself.
type worker struct {
	ctx    context.Context // ends with standard input
	number int
	rdb    redis.UniversalClient
	locker *fairlock.Locker
	tasks  sync.WaitGroup // tasks started by requests
	market market

	writing sync.Mutex // guards out
	out     *json.Encoder

	mu      sync.Mutex // guards waiting
	waiting map[string]chan request
}

func (w *worker) obey(in *json.Decoder) error {
	for {
		var r request
		switch err := in.Decode(&r); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch r.Do {
		case doOpen:
			w.open(r)
		case doJob:
			w.tasks.Go(func() { w.job(r) })
		case doNest:
			w.tasks.Go(func() { w.nest(r) })
		case doBuyers:
			w.tasks.Go(func() { w.crowd(r) })
		case doStale:
			w.tasks.Go(func() { w.cheat(r) })
		case doSoldOut:
			w.market.close()
		case doFinish, doAnswer:
			w.deliver(r)
		}
	}
}

func (w *worker) open(r request) {
	rdb, err := r.Server.Open()
	if err != nil {
		w.fail(err)
		return
	}
	w.rdb = rdb
	w.locker = fairlock.New(rdb, fairlock.WithPrefix(r.Prefix), fairlock.WithLease(leaseOfAll),
		fairlock.WithLogger(slog.New(slog.DiscardHandler)))
	w.market = newMarket(w.ctx)
	w.tell(event{Kind: onReady})
}

// close gives everything back: waiting calls leave the line.
func (w *worker) close() {
	if w.rdb != nil {
		_ = w.locker.Close() // never fails
		_ = w.rdb.Close()    // the way a connection ends changes nothing here
	}
}

func (w *worker) tell(e event) {
	e.Worker = w.number
	w.writing.Lock()
	defer w.writing.Unlock()
	_ = w.out.Encode(e) // if nobody reads any more, standard input has ended, too
}

// fail reports an error, except that the worker has to end.
func (w *worker) fail(err error) {
	if w.ctx.Err() == nil {
		text := err.Error()
		w.tell(event{Kind: onFailed, Result: text[:min(len(text), 1000)]}) // a line must stay short
	}
}

// expect prepares for a request to who.
func (w *worker) expect(who string) <-chan request {
	w.mu.Lock()
	defer w.mu.Unlock()
	inbox := make(chan request, 1)
	w.waiting[who] = inbox
	return inbox
}

// deliver passes a request to the task that expects it for who.
func (w *worker) deliver(r request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if inbox := w.waiting[r.Who]; inbox != nil {
		delete(w.waiting, r.Who)
		inbox <- r
	}
}

// ask sends e and waits for the request that answers it. It returns false if no answer will come.
func (w *worker) ask(e event) (request, bool) {
	inbox := w.expect(e.Who)
	w.tell(e)
	select {
	case r := <-inbox:
		return r, true
	case <-w.ctx.Done():
		return request{}, false
	}
}
