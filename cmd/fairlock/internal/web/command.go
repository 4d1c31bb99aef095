// Package web serves a page that shows all locks as they change, in a browser. If it may, the page
// also forces and evicts.
//
// A watcher looks at the locks for all browsers together and keeps what it has seen. A site makes
// pages of that, for people and as events for pages that are open. The guard decides which requests
// reach the site.
package web

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/cmd/fairlock/internal/process"
)

// Command is "fairlock web".
type Command struct {
	locks.Selection
	output.Flags
	Listen       string `placeholder:"HOST:PORT" env:"FAIRLOCK_WEB_LISTEN" default:"127.0.0.1:8379" help:"Where to serve the page (${env}; default ${default}). Any address that is not this machine's own needs a token."`
	Token        string `placeholder:"SECRET" env:"FAIRLOCK_WEB_TOKEN" help:"What browsers have to give as the password, with any user name; at least ${shortest} characters. Better in ${env}: others see the command line."`
	AllowChanges bool   `help:"Let whoever sees the page force and evict."`
}

// Shortest is how long a token has to be at least.
const Shortest = 16

// Help is the long text of "fairlock web --help".
func (*Command) Help() string {
	return `Serves a page for browsers: all locks, live, with who has them, who waits, hand-overs per second and the last ten
minutes as plots; and each lock's own page with its line. It says where the page is, and serves until it is interrupted.

  fairlock web
  FAIRLOCK_WEB_TOKEN=$(openssl rand -hex 16) fairlock web --listen :8379 --allow-changes

It looks while somebody has the page open, once for all browsers, as often as costs the server less than one percent
of its time. The page shows what there was to see since then. Without JavaScript it loads itself again every few seconds.

The page changes no lock, unless --allow-changes lets it force and evict. Then it asks first and says what will happen; if
the lock has changed hands meanwhile, nothing is done. Each change is a line on standard output. The page is not
encrypted: for other machines put it behind a proxy that is, or use ssh -L 8379:localhost:8379.

--json: the line with the page's address is an object with url and changes. A change is one with at,
did, name (name_base64, too, if it is not UTF-8), kind, whose (the token or the waiter's id), who and from; and unsure, which is true, if the Redis did not
answer and may have done it or not.

Exit codes:
  129, 130, 131, 143  SIGHUP, SIGINT, SIGQUIT or SIGTERM ended it
   64  the command line makes no sense; also an address that needs a token
   69  the server cannot be reached or used, or the page's address is taken
   74  standard output cannot be written`
}

// Run is called by kong.
func (v *Command) Run() error {
	if err := v.check(); err != nil {
		return err
	}
	s, err := v.Open(v.Kinds()...)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, got, release := process.UntilSignal()
	defer release()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", v.Listen)
	if err != nil {
		return exit.Errorf(exit.Unavailable, "--listen %s: %w", v.Listen, err)
	}
	defer listener.Close()                         // a second time, if it was served
	watcher := newWatcher(s.Servers[0], s.Lockers) // before the first request: see look.NewPace
	if _, err := s.Lockers[0].Inspect(ctx, "any"); err != nil && ctx.Err() == nil {
		return s.Lockers[0].Failed(err)
	}
	s.Notices.Mute()
	if err := v.say(listener.Addr()); err != nil {
		return err
	}
	process.DropBrokenPipes() // the page outlives who has read its address
	site := newSite(watcher, s.Lockers[0].Server, v.AllowChanges, inTurn(v.report))
	if err := site.serve(ctx, listener, v.Token); err != nil {
		return err
	}
	return got()
}

// check refuses flags that make no sense together, before anything happens.
func (v *Command) check() error {
	host, _, err := net.SplitHostPort(v.Listen)
	switch quorum := v.NoQuorum("web", "its page tells of hand-overs as they are heard, and what a node tells is of its vote and not of the lock; fairlock top looks at the locks again and again"); {
	case quorum != nil:
		return quorum
	case err != nil:
		return exit.Errorf(exit.Usage, "--listen wants HOST:PORT: %w", err)
	case v.Token != "" && len(v.Token) < Shortest:
		return exit.Errorf(exit.Usage, "--token has %d characters, and needs %d", len(v.Token), Shortest)
	case v.Token == "" && !isLoopback(host):
		return exit.Errorf(exit.Usage, "--listen %s is open to other machines, and so needs a --token (or FAIRLOCK_WEB_TOKEN)", v.Listen)
	}
	return nil
}

// say tells where the page is.
func (v *Command) say(at net.Addr) error {
	url := "http://" + at.String() + "/"
	if v.JSON {
		return output.Written(look.JSON(os.Stdout, struct {
			URL     string `json:"url"`
			Changes bool   `json:"changes"`
		}{url, v.AllowChanges}))
	}
	may := "read-only"
	if v.AllowChanges {
		may = "with force and evict"
	}
	_, err := fmt.Fprintf(os.Stdout, "%s (%s)\n", url, may)
	return output.Written(err)
}

// report writes down a change. If standard output cannot be written, it says so on standard error:
// the change has happened.
func (v *Command) report(c change) {
	var err error
	if v.JSON {
		err = look.JSON(os.Stdout, c)
	} else {
		unsure := ""
		if c.Unsure {
			unsure = "; the Redis did not answer, it may not have been done"
		}
		_, err = fmt.Fprintf(os.Stdout, "%s %s %s: %s (%s), from %s%s\n", output.At(c.At), c.Verb, output.Clean(c.Name), c.Who, output.Clean(c.Whose), c.From, unsure)
	}
	if err != nil {
		exit.Complain(os.Stderr, output.Written(err))
	}
}

// unread is how long the answer to a change waits until it is written down. Nobody may ever read
// standard output.
const unread = 100 * time.Millisecond

// inTurn returns a function that writes changes down one after the other. It returns when that is
// done, or after unread: a change that stands still is written later, and those behind it as well.
func inTurn(report func(change)) func(change) {
	var mu sync.Mutex // guards last
	last := make(chan struct{})
	close(last)
	return func(c change) {
		written := make(chan struct{})
		mu.Lock()
		before := last
		last = written
		mu.Unlock()
		go func() {
			defer close(written)
			<-before
			report(c)
		}()
		select {
		case <-written:
		case <-time.After(unread):
		}
	}
}

func newSite(w *watcher, server string, changes bool, report func(change)) *site {
	s := &site{watcher: w, server: server, changes: changes, report: report, secret: make([]byte, 32), streams: make(chan struct{}, mostStreams)}
	_, _ = rand.Read(s.secret) // never fails
	return s
}

// serve serves the site, for those who have the token if there is one, until ctx ends.
func (s *site) serve(ctx context.Context, listener net.Listener, token string) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	server := &http.Server{
		Handler:           guard(token, s.handler()),
		BaseContext:       func(net.Listener) context.Context { return ctx }, // ends streams
		ReadHeaderTimeout: patience,
		ReadTimeout:       patience,
		WriteTimeout:      3 * patience, // a stream sets its own
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	all.Go(func() { s.watcher.run(ctx) })
	all.Go(func() {
		<-ctx.Done()
		brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(brief) != nil {
			_ = server.Close() // somebody does not read
		}
		s.changing.Lock() // a change that a silent Redis has yet to answer is written down: patience bounds it
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return exit.Errorf(exit.Unavailable, "the page: %w", err)
	}
	return nil
}
