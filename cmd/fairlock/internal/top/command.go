// Package top shows all locks at once, in a terminal.
package top

import (
	"context"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/cmd/fairlock/internal/process"
	"github.com/fairlock/locks/cmd/fairlock/internal/survey"
)

// Command is "fairlock top".
type Command struct {
	locks.Selection
	output.Flags
	Once bool `help:"Print how it is and end, as where there is no terminal, and with --json."`
}

// Help is the long text of "fairlock top --help".
func (*Command) Help() string {
	return `Shows the fair locks that are held or waited for, or with --plain the plain ones, live: how many wait, hand-overs per
second, how long the first in line has waited, who has it for how long, and until when if nobody renews it. ? explains
the keys.

It looks as often as costs the server less than one percent of its time: every second where there are few locks,
every few seconds where there are hundreds. What is not seen within one look is not missed by the next.

Nobody counts hand-overs, so how many there are in a second is worked out from the last eight looks: while a lock is
found with the same holder again, by counting holders, and if each look finds another, by how long it has had the lock
on average, which is half a hold. If some hold it for much longer than others, that is too few.

--json: one object with all locks, once. What is not UTF-8 is there in base64, too, as lock_base64, owner_base64 or
note_base64.

Exit codes:
    0  q was pressed, or it was shown once
  129, 130, 131, 143  SIGHUP, SIGINT, SIGQUIT or SIGTERM ended it
   64  the command line makes no sense
   69  the server cannot be reached or used
   74  standard output cannot be written`
}

// Run is called by kong.
func (v *Command) Run() error {
	s, err := v.Open(v.Kind())
	if err != nil {
		return err
	}
	defer s.Close()
	locker := s.Lockers[0]
	all := survey.New(look.NewPace(time.Second, s.Servers...), locker)
	ctx, got, release := process.UntilSignal()
	defer release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if v.Once || v.JSON || !interactive() {
		return v.once(ctx, locker, all, got)
	}
	switch _, err := locker.Inspect(ctx, "any"); {
	case ctx.Err() != nil:
		return got()
	case err != nil:
		return locker.Failed(err)
	}
	s.Notices.Mute()
	return show(ctx, NewModel(ctx, all, locker.Server, v.Plain), got)
}

// show runs the live screen until its user, or a signal, ends it.
func show(ctx context.Context, model tea.Model, got func() error) error {
	program := tea.NewProgram(model, tea.WithoutSignalHandler()) // signals end ctx
	stop := context.AfterFunc(ctx, program.Quit)
	defer stop()
	if _, err := program.Run(); err != nil {
		return err
	}
	return got()
}

// once prints a snapshot.
func (v *Command) once(ctx context.Context, locker locks.Locker, all *survey.Survey, got func() error) error {
	picture, err := Snapshot(ctx, all)
	switch {
	case ctx.Err() != nil:
		return got()
	case err != nil:
		return locker.Failed(err)
	case v.JSON:
		return output.Written(WriteJSON(os.Stdout, picture))
	default:
		return output.Written(WriteText(os.Stdout, picture, v.Plain))
	}
}

// interactive reports whether there is a screen with a person at it.
func interactive() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "dumb"
}
