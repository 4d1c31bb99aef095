package main

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

// workerVerb is what the demo starts its own program with.
type workerVerb struct {
	Number int `arg:""`
}

// Run obeys until standard input ends, which it also does when the demo dies.
func (v *workerVerb) Run() error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP) // whoever sends us these sends them to the demo too, and that ends us
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := &worker{ctx: ctx, number: v.Number, out: json.NewEncoder(os.Stdout), waiting: make(map[string]chan command)}
	err := w.obey(json.NewDecoder(os.Stdin))
	cancel()
	w.tasks.Wait()
	w.close()
	return err
}

// worker is a process of the demo, from inside.
type worker struct {
	ctx    context.Context // ends with standard input
	number int
	rdb    redis.UniversalClient
	locker *fairlock.Locker
	tasks  sync.WaitGroup // whatever was started by a command
	market market

	writing sync.Mutex // guards out
	out     *json.Encoder

	mu      sync.Mutex // guards waiting
	waiting map[string]chan command
}

func (w *worker) obey(in *json.Decoder) error {
	for {
		var c command
		switch err := in.Decode(&c); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch c.Do {
		case doOpen:
			w.open(c)
		case doJob:
			w.tasks.Go(func() { w.job(c) })
		case doNest:
			w.tasks.Go(func() { w.nest(c) })
		case doBuyers:
			w.tasks.Go(func() { w.crowd(c) })
		case doStale:
			w.tasks.Go(func() { w.cheat(c) })
		case doSoldOut:
			w.market.close()
		case doFinish, doAnswer:
			w.deliver(c)
		}
	}
}

func (w *worker) open(c command) {
	rdb, err := c.Server.Open()
	if err != nil {
		w.fail(err)
		return
	}
	w.rdb = rdb
	w.locker = fairlock.New(rdb, fairlock.WithPrefix(c.Prefix), fairlock.WithLease(demoLease), fairlock.WithLogger(slog.New(slog.DiscardHandler)))
	w.market = newMarket(w.ctx)
	w.tell(event{Kind: onReady})
}

// close gives back everything: whoever waits leaves the line.
func (w *worker) close() {
	if w.rdb != nil {
		_ = w.locker.Close() // it never fails
		_ = w.rdb.Close()    // and how a connection ends changes nothing here
	}
}

func (w *worker) tell(e event) {
	e.Worker = w.number
	w.writing.Lock()
	defer w.writing.Unlock()
	_ = w.out.Encode(e) // if nobody reads any more, standard input has ended too
}

// fail reports an error, unless it is that we are to end.
func (w *worker) fail(err error) {
	if w.ctx.Err() == nil {
		text := err.Error()
		w.tell(event{Kind: onFailed, Result: text[:min(len(text), 1000)]}) // a line must stay short
	}
}

// expect prepares for a command to who.
func (w *worker) expect(who string) <-chan command {
	w.mu.Lock()
	defer w.mu.Unlock()
	inbox := make(chan command, 1)
	w.waiting[who] = inbox
	return inbox
}

// deliver passes a command on to who expects it.
func (w *worker) deliver(c command) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if inbox := w.waiting[c.Who]; inbox != nil {
		delete(w.waiting, c.Who)
		inbox <- c
	}
}

// ask tells e and waits for the command that answers it; false if there will be none.
func (w *worker) ask(e event) (command, bool) {
	inbox := w.expect(e.Who)
	w.tell(e)
	select {
	case c := <-inbox:
		return c, true
	case <-w.ctx.Done():
		return command{}, false
	}
}
