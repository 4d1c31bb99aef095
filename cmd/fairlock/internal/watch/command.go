package watch

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/cmd/fairlock/internal/process"
)

// Command is "fairlock watch".
type Command struct {
	locks.Selection
	output.Flags
	Name string `arg:"" complete:"lock" help:"The lock's name."`
}

// Help is the long text of "fairlock watch --help".
func (*Command) Help() string {
	return `Tells what happens to a lock, as it happens, until it is interrupted:

  standing   how it is at first
  granted    somebody has it          released   its holder gave it back
  expired    its lease ended          ended      it was given back, or its lease ended
  forced     its holder lost it       unseen     somebody had it between two looks
  expiring   two thirds of its lease are over and it was not renewed      renewed   it was, after that
  forgotten  the server lost data: who has it may come back for it
  came       a waiter is in line      left       it gave up, or died
  evicted    it was sent away         gone       it had the lock between two looks, or left
  damaged    something in its keys makes no sense

Whom a lock is handed to in another process, force and evictions are heard the moment they happen. The rest is seen by
looking, four times a second at a short line and less often at a long one, so that it costs the server less than one
percent of its time. A lock that nobody waits for can be taken and given back between two looks: the next one shows by
its token that this happened, but not how often, nor by whom. One that is handed on within one process is as quiet.

--json: at, lock, event, and where they apply id, owner, note, token, position, waited_ms, held_ms,
remaining_ms, waiting; lock_base64, owner_base64, note_base64 if the text is not UTF-8.

Exit codes:
  129, 130, 131, 143  SIGHUP, SIGINT, SIGQUIT or SIGTERM ended it
   64  the command line makes no sense
   69  the server cannot be reached or used
   74  standard output cannot be written`
}

// Run is called by kong.
func (w *Command) Run() error {
	if err := w.NoQuorum("watch", "what a node tells is of its vote, and not of the lock; fairlock top looks at the locks again and again"); err != nil {
		return err
	}
	s, err := w.Open(w.Kind())
	if err != nil {
		return err
	}
	defer s.Close()
	locker, pace := s.Lockers[0], look.NewPace(250*time.Millisecond, s.Servers...)
	ctx, got, release := process.UntilSignal()
	defer release()
	if _, err := locker.Inspect(ctx, w.Name); err != nil && ctx.Err() == nil {
		return locker.Failed(err)
	}
	s.Notices.Mute()
	c := output.ColourFor(os.Stdout)
	p := &printer{write: func(events []Event) error {
		if w.JSON {
			return output.Written(WriteJSON(os.Stdout, events))
		}
		return output.Written(WriteText(os.Stdout, events, w.Plain, func(k Kind, text string) string { return c.Paint(shadeOf[k], text) }))
	}}
	if err := Follow(ctx, locker, pace, w.Name, p); err != nil {
		return err
	}
	return got()
}

// shadeOf has the colours of the kinds of events.
var shadeOf = map[Kind]string{
	Standing: output.Bold, Granted: output.Green, Released: output.Faint, Ended: output.Faint, Renewed: output.Green,
	Damaged: output.Red, Expired: output.Red, Forced: output.Red, Evicted: output.Red, Forgotten: output.Red, Expiring: output.Yellow,
}

// printer writes what happens to a lock. When the lock can no longer be seen, printer complains
// once each time.
type printer struct {
	write func([]Event) error
	blind bool
}

// Tell writes events.
func (p *printer) Tell(events []Event) error { return p.write(events) }

// Blind complains on stderr.
func (p *printer) Blind(err error) {
	if !p.blind {
		exit.Complain(os.Stderr, err)
	}
	p.blind = true
}

// Sees notes that the server answers again.
func (p *printer) Sees() {
	if p.blind {
		exit.Complain(os.Stderr, errors.New("the server answers again"))
	}
	p.blind = false
}

// Deaf complains on stderr.
func (p *printer) Deaf(err error) {
	exit.Complain(os.Stderr, fmt.Errorf("what the server tells others is not heard, and only looked for: %w", err))
}
