// Package locks gives commands access to the locks of a server. It has the flags that choose the
// locks, and the records that JSON shows.
package locks

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/server"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/quorum"
	"github.com/fairlock/locks/redisson"
	"github.com/fairlock/locks/reentrant"
)

// The kinds of locks.
const (
	Fair     = "fair"
	Plain    = "plain"
	Redisson = "redisson" // of Java's Redisson, fair or plain: the same keys
	Quorum   = "quorum"   // fair ones that a majority of several servers keeps
)

// Keyspace says where the locks are: the flags of every command that looks for locks.
type Keyspace struct {
	server.Connection
	Prefix string `placeholder:"PREFIX" env:"FAIRLOCK_PREFIX" help:"What the keys of the locks begin with (${env}; default fairlock, or quorum for those of a quorum)."`
}

// Locker is a Locker for the locks of one kind.
type Locker struct {
	Kind   string
	Server string // where the locks are
	fairlock.Interface
}

// Evicter is a Locker whose locks have a line.
type Evicter interface {
	Evict(ctx context.Context, name, waiter string) error
}

// Store gives a command the locks of a server, or of a quorum.
type Store struct {
	Servers []redis.UniversalClient // one, or the nodes of the quorum
	Lockers []Locker                // one for each kind
	Notices *Notices                // shows the library's warnings about the server
}

// Open makes Lockers of these kinds. It does no I/O. The caller must close the Store. The fair
// locks of a quorum are of the kind Quorum.
func (k *Keyspace) Open(kinds ...string) (*Store, error) {
	s := &Store{Notices: NewNotices(os.Stderr)}
	if k.Quorum() {
		return s, k.openQuorum(s, kinds)
	}
	rdb, err := k.Connection.Open()
	if err != nil {
		return nil, err
	}
	s.Servers = []redis.UniversalClient{rdb}
	for _, kind := range kinds {
		s.Lockers = append(s.Lockers, Locker{kind, k.String(), New(rdb, kind, k.Prefix, slog.New(s.Notices))})
	}
	return s, nil
}

// Close ends the use of the server.
func (s *Store) Close() {
	for _, l := range s.Lockers {
		_ = l.Close() // never fails
	}
	for _, rdb := range s.Servers {
		_ = rdb.Close() // the process ends
	}
}

// New returns a Locker of one kind. An empty prefix means the default of the kind.
func New(rdb redis.UniversalClient, kind, prefix string, log *slog.Logger, options ...fairlock.Option) fairlock.Interface {
	options = append(options, fairlock.WithLogger(log))
	if prefix != "" {
		options = append(options, fairlock.WithPrefix(prefix))
	}
	switch kind {
	case Plain:
		return reentrant.New(rdb, options...)
	case Redisson:
		return redisson.New(rdb, redisson.WithLogger(log))
	}
	return fairlock.New(rdb, options...)
}

// Selection chooses locks of either kind.
type Selection struct {
	Keyspace
	Plain bool `help:"Plain locks, which have no line (package reentrant)."`
}

// Kind returns the kind of lock that the flags mean.
func (s *Selection) Kind() string { return KindOf(s.Plain) }

// KindOf returns the kind that a flag called plain chooses.
func KindOf(plain bool) string {
	if plain {
		return Plain
	}
	return Fair
}

// Kinds returns the kinds to look at: both, unless a flag chooses one.
func (s *Selection) Kinds() []string {
	if s.Plain {
		return []string{Plain}
	}
	return []string{Fair, Plain}
}

// Reading is a Selection for commands that only read. They can read the locks of Redisson, too.
type Reading struct {
	Selection
	Redisson bool `help:"Locks of Java's Redisson, fair and plain, in place of Fairlock's."`
}

// Kinds returns the kinds to look at.
func (r *Reading) Kinds() ([]string, error) {
	switch {
	case r.Redisson && r.Plain:
		return nil, exit.Errorf(exit.Usage, "--redisson shows fair and plain locks of Redisson; --plain is for those of Fairlock")
	case r.Redisson && r.Prefix != "":
		return nil, exit.Errorf(exit.Usage, "--redisson: Redisson's keys have no prefix; give the name as it is on the server%s", server.Exported("FAIRLOCK_PREFIX"))
	case r.Redisson:
		return []string{Redisson}, nil
	}
	return r.Selection.Kinds(), nil
}

// Predict returns the names of the selected locks, for completion: never those of the other system.
func (r *Reading) Predict(ctx context.Context, _ string) []Candidate {
	kinds, err := r.Kinds()
	if err != nil {
		return nil
	}
	return r.Names(ctx, kinds...)
}

// Failed turns an error of the library into an exit.Error.
func (l Locker) Failed(err error) error {
	switch {
	case errors.Is(err, fairlock.ErrInvalid):
		return &exit.Error{Code: exit.Usage, Err: err}
	case errors.Is(err, fairlock.ErrNotHeld) || NoWaiter(err):
		return &exit.Error{Code: exit.Nothing, Err: err}
	default:
		return exit.Errorf(exit.Unavailable, "%w (the server is %s)", err, l.Server)
	}
}

// Certain reports whether it is known if a change happened that ended so. Where too few nodes of a
// quorum have answered, one of them may have made it, whatever another one's failure says.
func Certain(err error) bool {
	return !lua.Unanswered(err) && !errors.Is(err, quorum.ErrUnreachable) || errors.Is(err, fairlock.ErrNotHeld) || NoWaiter(err) || errors.Is(err, fairlock.ErrInvalid)
}

// NoWaiter reports whether an Evict that ended so has found nobody to evict.
func NoWaiter(err error) bool {
	return errors.Is(err, fairlock.ErrNotWaiting) || errors.Is(err, quorum.ErrNotShown)
}

// Force ends the ownership with that token. A quorum's cannot be named: Force then ends whichever
// there is by now.
func (l Locker) Force(ctx context.Context, name string, token int64) error {
	if exact, ok := l.Interface.(interface {
		ForceToken(ctx context.Context, name string, token int64) error
	}); ok {
		return exact.ForceToken(ctx, name, token)
	}
	return l.ForceUnlock(ctx, name)
}

// FailedChange is Failed for an error of a change. If that may have happened all the same, the
// error says so, and what to do before it is asked for again.
func (l Locker) FailedChange(err error, before string) error {
	if Certain(err) {
		return l.Failed(err)
	}
	return exit.Errorf(exit.Unavailable, "%w (the server is %s); it may have been done all the same: %s", err, l.Server, before)
}

// Look inspects a lock.
func (l Locker) Look(name string) (*Record, error) {
	state, err := l.Inspect(context.Background(), name)
	if err != nil {
		return nil, l.Failed(err)
	}
	return NewRecord(l.Kind, state), nil
}
