package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/reentrant"
	"github.com/fairlock/locks/test/redistest"
)

// told is an event as a program reads it.
type told struct {
	Lock, Event, ID, Note string
	Token                 int64
	Position, Waiting     int
}

// tells waits for the next event and checks its kind.
func (p *tool) tells(kind, note string, waiting int) told {
	p.t.Helper()
	var e told
	line := p.line()
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		p.t.Fatalf("%v: %s", err, line)
	}
	if e.Lock != "x" || e.Event != kind || e.Note != note || e.Waiting != waiting {
		p.t.Fatalf("told %s, want %s of %q with %d waiting; stderr: %s", line, kind, note, waiting, p.stderr.String())
	}
	return e
}

func (p *tool) signals(s syscall.Signal) {
	p.t.Helper()
	must(p.t, p.cmd.Process.Signal(s))
}

// joins makes a call wait, and returns its lease to the test.
func joins(t *testing.T, locker *fairlock.Locker, note string) <-chan *fairlock.Lease {
	t.Helper()
	got := make(chan *fairlock.Lease, 1)
	waits := make(chan int, 1)
	go func() {
		lease, err := locker.Lock(context.Background(), "x", fairlock.Note(note), fairlock.OnQueued(func(at int) { waits <- at }))
		if err != nil && !errors.Is(err, fairlock.ErrEvicted) && !errors.Is(err, fairlock.ErrClosed) {
			t.Error(err)
		}
		got <- lease
	}()
	<-waits
	return got
}

func TestWatchTellsWhatHappensToALock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := observer(t, s), observer(t, s)
	p := launch(t, s, "watch", "--json", "x")
	p.tells("standing", "", 0)
	eventually(t, "it overhears the messages", func() bool { return s.Client(t).PubSubNumPat(t.Context()).Val() > 0 })
	first, err := a.Lock(t.Context(), "x", fairlock.Note("first"))
	must(t, err)
	p.tells("granted", "first", 0)
	stuck := joins(t, b, "stuck")
	who := p.tells("came", "stuck", 1)
	must(t, b.Evict(t.Context(), "x", who.ID))
	p.tells("evicted", "stuck", 0)
	<-stuck
	next := joins(t, b, "next")
	if e := p.tells("came", "next", 1); e.Position != 1 {
		t.Errorf("%+v", e)
	}
	must(t, first.Unlock(t.Context()))
	p.tells("released", "first", 1)
	lease := <-next
	if e := p.tells("granted", "next", 0); e.Token != lease.Token() {
		t.Errorf("%+v", e)
	}
	last := joins(t, a, "last")
	p.tells("came", "last", 1)
	must(t, b.ForceUnlock(t.Context(), "x"))
	p.tells("forced", "next", 1)
	p.tells("granted", "last", 0)
	must(t, (<-last).Unlock(t.Context()))
	p.tells("released", "last", 0)
	p.signals(syscall.SIGINT)
	p.ends(130)
	if text := p.stderr.String(); text != "" {
		t.Errorf("stderr: %s", text)
	}
}

func TestWatchTellsWhatHappensToAPlainLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := reentrant.New(s.Client(t))
	defer a.Close()
	p := launch(t, s, "watch", "--plain", "--json", "x")
	p.tells("standing", "", 0)
	lease, err := a.Lock(t.Context(), "x", fairlock.Note("a"))
	must(t, err)
	p.tells("granted", "a", 0)
	must(t, lease.Unlock(t.Context()))
	p.tells("released", "a", 0)
	p.signals(syscall.SIGTERM)
	p.ends(143)
}

func TestWatchGoesOnWhenTheServerReturns(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := observer(t, s)
	p := launch(t, s, "watch", "--json", "x")
	p.tells("standing", "", 0)
	s.Kill()
	// It also says that it hears nothing any more, and may say that first.
	eventually(t, "it says so", func() bool {
		for line := range strings.Lines(p.stderr.String()) {
			if strings.Contains(line, `inspect "x"`) && strings.Contains(line, "refused") {
				return true
			}
		}
		return false
	})
	s.Restart()
	lease := take(t, a, "x")
	if e := p.tells("granted", "", 0); e.Token != lease.Token() {
		t.Errorf("%+v", e)
	}
	eventually(t, "it says so", func() bool { return strings.HasSuffix(p.stderr.String(), "fairlock: the server answers again\n") })
	p.signals(syscall.SIGINT)
	p.ends(130)
}

func TestWatchThatMakesNoSenseOrHasNoServerEndsAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := launch(t, s, "watch", "}")
	p.ends(exit.Usage)
	p.complains("inspect", "}")
	p = fairlockWith(t, nil, "watch", "--redis", "redis://127.0.0.1:1", "x").start()
	p.ends(exit.Unavailable)
	p.complains("refused")
}
