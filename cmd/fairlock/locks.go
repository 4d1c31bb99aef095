package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/reentrant"
)

// The kinds of locks.
const (
	fairKind  = "fair"
	plainKind = "plain"
)

// site is where the locks are.
type site struct {
	connection
	Prefix string `placeholder:"PREFIX" env:"FAIRLOCK_PREFIX" help:"What the keys of the locks begin with (${env}; default fairlock)."`
}

// locks are those of one kind.
type locks struct {
	kind  string
	where string // the server
	fairlock.Interface
}

// store is the locks of a server, as a verb looks at them.
type store struct {
	rdb   redis.UniversalClient
	kinds []locks
	log   *notices // what the library has to say of the server
	close func()
}

// open makes Lockers of these kinds. It does no I/O; the store must be closed.
func (s *site) open(kinds ...string) (*store, error) {
	rdb, err := s.connection.open()
	if err != nil {
		return nil, err
	}
	opened := &store{rdb: rdb, log: newNotices(os.Stderr)}
	for _, kind := range kinds {
		opened.kinds = append(opened.kinds, locks{kind, s.String(), lockerOf(rdb, kind, s.Prefix, slog.New(opened.log))})
	}
	opened.close = func() {
		for _, l := range opened.kinds {
			_ = l.Close() // it never fails
		}
		_ = rdb.Close() // the process ends
	}
	return opened, nil
}

// lockerOf is a Locker of one kind. An empty prefix is the kind's own.
func lockerOf(rdb redis.UniversalClient, kind, prefix string, log *slog.Logger, options ...fairlock.Option) fairlock.Interface {
	options = append(options, fairlock.WithLogger(log))
	if prefix != "" {
		options = append(options, fairlock.WithPrefix(prefix))
	}
	if kind == plainKind {
		return reentrant.New(rdb, options...)
	}
	return fairlock.New(rdb, options...)
}

// selection is which locks: of either kind.
type selection struct {
	site
	Plain bool `help:"Plain locks, which have no line (package reentrant)."`
}

// kind is the one that is meant unless another is told.
func (s *selection) kind() string { return kindOf(s.Plain) }

func kindOf(plain bool) string {
	if plain {
		return plainKind
	}
	return fairKind
}

// kinds are those to look at: both, if nothing says which.
func (s *selection) kinds() []string {
	if s.Plain {
		return []string{plainKind}
	}
	return []string{fairKind, plainKind}
}

// failed turns an error of the library into an exit.Error.
func (l locks) failed(err error) error {
	switch {
	case errors.Is(err, fairlock.ErrInvalid):
		return &exit.Error{Code: exit.Usage, Err: err}
	case errors.Is(err, fairlock.ErrNotHeld) || errors.Is(err, fairlock.ErrNotWaiting):
		return &exit.Error{Code: exit.Nothing, Err: err}
	default:
		return exit.Errorf(exit.Unavailable, "%w (the server is %s)", err, l.where)
	}
}

// inspect looks at a lock.
func (l locks) inspect(name string) (*lockRecord, error) {
	state, err := l.Inspect(context.Background(), name)
	if err != nil {
		return nil, l.failed(err)
	}
	return newLockRecord(l.kind, state), nil
}
