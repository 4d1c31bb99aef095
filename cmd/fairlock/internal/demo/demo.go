// Package demo shows with real processes what the locks promise, and checks it: a session plays
// scenarios with a pool of workers, and a witness judges the events.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/process"
	"github.com/fairlock/locks/cmd/fairlock/internal/server"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/embedded"
	"github.com/fairlock/locks/lua"
)

const (
	leaseOfAll  = 10 * time.Second
	atMost      = time.Minute // it takes a few seconds; after a minute something hangs
	mostWorkers = 26          // their names are letters
)

// Command is "fairlock demo".
type Command struct {
	// FAIRLOCK_REDIS does not count: that one is for work.
	Redis string `placeholder:"URL" env:"FAIRLOCK_DEMO_REDIS" help:"The Redis to play on (${env}); without it, one that is embedded for the time of the demo."`
	server.TLSFiles
	Workers int  `default:"4" placeholder:"4" help:"How many worker processes, from 2 to 26 (default ${default})."`
	Plain   bool `help:"Print nothing but the results, as key=value lines."`
	JSON    bool `help:"Print nothing but the results, as JSON."`
	NoColor bool `help:"Do without colours, as with the environment variable NO_COLOR."`
}

// Help is the long text of "fairlock demo --help".
func (*Command) Help() string {
	return `Starts worker processes and plays three scenes with them: jobs that are done one at a time and in the order in
which they came, although a worker is killed meanwhile; a lock taken within itself; and a sale of 100 pieces to
2,000 buyers. Every promise is checked on the way, by a witness that no clock can mislead.

On a Redis of yours it uses keys of its own, beginning with fairlock-demo- and a random name, which expire by
themselves within minutes. The demo deletes one more as it ends; if it is killed, that one stays for 90 days.

Exit codes:
    0  every promise was kept
    1  one was broken, or the demo could not be played to its end
   64  the command line makes no sense
   69  the server cannot be reached or used
   74  standard output cannot be written`
}

// Run is called by kong.
func (d *Command) Run() (err error) {
	if d.Workers < 2 || d.Workers > mostWorkers {
		return exit.Errorf(exit.Usage, "--workers: %d is not between 2 and %d", d.Workers, mostWorkers)
	}
	target, where, stop, err := d.server()
	if err != nil {
		return err
	}
	defer stop()
	rdb, err := target.Open()
	if err != nil {
		return err
	}
	defer rdb.Close()
	process.DropBrokenPipes() // else it would die of one, and leave a key
	ctx, cancel, release := watched()
	defer release()
	prefix := "fairlock-demo-" + strings.ToLower(rand.Text()[:8])
	// Nobody will use this prefix again, and the key would stay for months.
	defer func() { _ = rdb.Del(context.Background(), lua.ProtocolKey(prefix)).Err() }()
	locker := fairlock.New(rdb, fairlock.WithPrefix(prefix), fairlock.WithLease(leaseOfAll),
		fairlock.WithLogger(slog.New(locks.NewNotices(os.Stderr))))
	defer locker.Close()
	pool, err := newPool(request{Do: doOpen, Server: target, Prefix: prefix})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.stop()) }()
	s := &session{ctx: ctx, screen: newScreen(os.Stdout, cancel, d.Plain || d.JSON, d.NoColor), locker: locker, pool: pool, witness: newWitness()}
	s.screen.json = d.JSON
	return s.play(d.Workers, where)
}

// server returns the server to play on, and a name for it.
func (d *Command) server() (target server.Connection, where string, stop func(), err error) {
	if d.Redis != "" {
		target = server.Connection{Redis: []string{d.Redis}, TLSFiles: d.TLSFiles}
		return target, "the server at " + target.String(), func() {}, nil
	}
	own, err := embedded.Start()
	if err != nil {
		return server.Connection{}, "", nil, err
	}
	return server.Connection{Redis: []string{"redis://" + own.Addr()}}, "the embedded server at " + own.Addr(), own.Close, nil
}

// watched returns a context that ends with the first signal, or when the demo takes too long. It
// also returns what else ends it, and a function that releases it.
func watched() (context.Context, context.CancelCauseFunc, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals, release := process.Catch(process.Ending...)
	late := time.AfterFunc(atMost, func() { cancel(exit.Errorf(exit.Broken, "the demo did not end within %v", atMost)) })
	go func() {
		select {
		case got := <-signals:
			cancel(&exit.Error{Code: exit.Signal + process.Number(got)})
		case <-ctx.Done():
		}
	}()
	return ctx, cancel, func() {
		release()
		late.Stop()
		cancel(nil)
	}
}

// play plays the scenarios and returns an error if something failed.
func (s *session) play(workers int, where string) error {
	if _, err := s.locker.Inspect(s.ctx, "ready"); err != nil {
		return s.unavailable(err)
	}
	s.screen.title(workers, where)
	if err := s.assemble(workers); err != nil {
		return err
	}
	for _, scenario := range []func() error{s.jobs, s.nested, s.seckill} {
		if err := scenario(); err != nil {
			return err
		}
	}
	return s.conclude()
}

// unavailable returns the exit.Error for a server that did not answer the first question.
func (s *session) unavailable(err error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return &exit.Error{Code: exit.Unavailable, Err: err}
}

// assemble starts the workers. Each waits in line once: after that a worker has its subscription
// and hears of its grants at once.
func (s *session) assemble(workers int) error {
	for number := range workers {
		if err := s.pool.start(number); err != nil {
			return err
		}
	}
	return s.warmUp(s.pool.workers...)
}

// warmUp makes the workers wait for one lock, and get it.
func (s *session) warmUp(all ...*workerProcess) error {
	g, err := s.shut("ready")
	if err != nil {
		return err
	}
	defer g.abandon()
	for _, p := range all {
		if err := s.await(onReady); err != nil {
			return err
		}
		p.send(request{Do: doJob, Lock: "ready", Who: "worker " + letter(p.number)})
	}
	if _, err := s.until("ready", func(state *fairlock.State) bool { return len(state.Waiters) == len(all) }); err != nil {
		return err
	}
	if err := g.open(); err != nil {
		return err
	}
	for range all {
		if err := s.await(onDone); err != nil {
			return err
		}
	}
	return nil
}
