package main

import (
	"context"
	"os"

	tea "charm.land/bubbletea/v2"
	"github.com/redis/go-redis/v9"
	"golang.org/x/term"

	"github.com/fairlock/locks/cmd/fairlock/internal/top"
)

// topVerb is "fairlock top".
type topVerb struct {
	Redis string `placeholder:"URL" env:"FAIRLOCK_REDIS" default:"redis://127.0.0.1:6379" help:"The Redis that keeps the locks (${env}; default ${default})."`
	Plain bool   `help:"Plain locks of package reentrant, which have no lines."`
	Once  bool   `help:"Print how it is and end, as where there is no terminal."`
	JSON  bool   `name:"json" help:"Print how it is as one JSON object and end."`
}

// Help is the long text of "fairlock top --help".
func (*topVerb) Help() string {
	return `Shows all locks that are held or waited for, live: how many wait, hand-overs per second, how long the first in line
has waited, who has it for how long, and until when if nobody renews it. ? explains the keys.

It looks as often as costs the server less than one percent of its time: every second where there are few locks,
every few seconds where there are hundreds. What is not seen within one look is not missed by the next.

Nobody counts hand-overs, so how many there are in a second is worked out from the last eight looks: while a lock is
found with the same holder again, by counting holders, and if each look finds another, by how long it has had the lock
on average, which is half a hold. If some hold it for much longer than others, that is too few.`
}

// Run is called by kong.
func (v *topVerb) Run() error {
	rdb, err := connect(v.Redis)
	if err != nil {
		return err
	}
	defer rdb.Close()
	locker := lockerOf(rdb, v.Plain)
	defer locker.Close()
	survey := top.NewSurvey(locker, rdb)
	ctx, got, release := untilSignal()
	defer release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if v.Once || v.JSON || !interactive() {
		return v.once(ctx, survey, got)
	}
	_, err = locker.Inspect(ctx, "any")
	if err != nil {
		return unusable(err)
	}
	return show(ctx, top.NewModel(ctx, survey, address(rdb), v.Plain), got)
}

// show shows the live screen until somebody ends it, or a signal does.
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
func (v *topVerb) once(ctx context.Context, survey *top.Survey, got func() error) error {
	picture, err := top.Snapshot(ctx, survey)
	switch {
	case ctx.Err() != nil:
		return got()
	case err != nil:
		return unusable(err)
	case v.JSON:
		return top.WriteJSON(os.Stdout, picture)
	default:
		return top.WriteText(os.Stdout, picture, v.Plain)
	}
}

// interactive reports whether there is a screen, and somebody at it.
func interactive() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "dumb"
}

// address is where a client's server is, without user and password.
func address(rdb *redis.Client) string { return rdb.Options().Addr }
