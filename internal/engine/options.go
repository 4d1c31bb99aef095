package engine

import (
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/fairlock/locks/lua"
)

// What a Locker uses unless told otherwise.
const (
	DefaultLease = 30 * time.Second
	MinLease     = 100 * time.Millisecond
	MaxLease     = 366 * 24 * time.Hour
)

// Settings are what the Options of a Locker set.
type Settings struct {
	Prefix   string
	Lease    time.Duration
	Logger   *slog.Logger
	Identity Identity
	Observer Observer // may be nil
	Err      error    // the options that made no sense; every call returns them

	id       string // of the client; see WithID
	after    uint64 // which counter its tickets begin; see WithID
	reporter *reporter
	alarm    func() // see WithAlarm; may be nil
}

// Option configures a Locker. Only this package makes any.
type Option interface{ apply(*Settings) }

type option func(*Settings)

func (o option) apply(s *Settings) { o(s) }

// newSettings applies options over the defaults.
func newSettings(prefix string, options []Option) Settings {
	s := Settings{Prefix: prefix, Lease: DefaultLease, Logger: slog.Default(), Identity: ByContext, id: uuid.NewString() + lua.KnowsRuns}
	for _, o := range options {
		if o == nil {
			s.Err = errors.Join(s.Err, Invalid("an Option is nil"))
			continue
		}
		o.apply(&s)
	}
	s.reports()
	return s
}

// WithID sets the first part of the client's tickets, which must be unique among all clients, and
// the counter that they begin after.
func WithID(id string, after uint64) Option {
	return option(func(s *Settings) { s.id, s.after = id, after })
}

// WithAlarm is for a simulation, whose processes may stand still: f is called before a timer's work
// is done, with no mutex held. Nor do calls share requests in a simulation, or the order of
// goroutines would decide which do.
func WithAlarm(f func()) Option { return option(func(s *Settings) { s.alarm = f }) }

// Simulated reports whether the Locker lives in a simulation.
func (s *Settings) Simulated() bool { return s.alarm != nil }

// Alarmed says that a timer's work is about to be done.
func (s *Settings) Alarmed() {
	if s.alarm != nil {
		s.alarm()
	}
}

// Observe tells the observer, if there is one. It may be called with any mutex held.
func (s *Settings) Observe(e Event) { s.reporter.observe(e) }

// WithPrefix sets what all keys and channels begin with.
func WithPrefix(prefix string) Option { return option(func(s *Settings) { s.Prefix = prefix }) }

// WithLease sets how long a lock outlives a holder that no longer renews it.
func WithLease(d time.Duration) Option { return WithLeaseAs("WithLease", d) }

// WithLeaseAs is WithLease where users know it by another name.
func WithLeaseAs(name string, d time.Duration) Option {
	return option(func(s *Settings) {
		s.Lease = d
		s.Err = errors.Join(s.Err, checkLease(name, d))
	})
}

// WithLogger sets where the Locker reports what it cannot tell any caller.
func WithLogger(logger *slog.Logger) Option {
	return option(func(s *Settings) {
		if logger == nil {
			s.Err = errors.Join(s.Err, Invalid("WithLogger: the logger is nil"))
			return
		}
		s.Logger = logger
	})
}

// WithIdentity sets how a nested call is recognised as the holder's own.
func WithIdentity(identity Identity) Option {
	return option(func(s *Settings) {
		s.Identity = identity
		if identity != ByContext && identity != ByGoroutine {
			s.Err = errors.Join(s.Err, Invalid("WithIdentity: %d is none", identity))
		}
	})
}

// WithObserver has the Locker tell o what happens.
func WithObserver(o Observer) Option {
	return option(func(s *Settings) {
		if o == nil {
			s.Err = errors.Join(s.Err, Invalid("WithObserver: the observer is nil"))
			return
		}
		s.Observer = o
	})
}
