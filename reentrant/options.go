package reentrant

import (
	"errors"
	"log/slog"
	"strings"
	"time"

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
	reporter *reporter
	Err      error  // the options that made no sense; every call returns them
	Alarm    func() // called before a timer's work is done, with no mutex held; for a simulation, whose processes may stand still. May be nil
}

// Alarmed calls Alarm.
func (s *Settings) Alarmed() {
	if s.Alarm != nil {
		s.Alarm()
	}
}

// Option configures a Locker.
type Option func(*Settings)

// NewSettings applies options over the defaults.
func NewSettings(prefix string, options []Option) Settings {
	s := Settings{Prefix: prefix, Lease: DefaultLease, Logger: slog.Default(), Identity: ByContext}
	for _, option := range options {
		if option == nil {
			s.Err = errors.Join(s.Err, Invalid("an Option is nil"))
			continue
		}
		option(&s)
	}
	s.reports()
	return s
}

// WithPrefix sets what all keys and channels begin with; those of plain locks go on with
// ":plain". It must not contain braces, nor, after a colon, one of the words that follow it in
// keys: lock, queue, waiters, token, wake, freed, plain. Lockers share locks if, and only if,
// they share the kind of lock, the prefix and the server.
func WithPrefix(prefix string) Option { return func(s *Settings) { s.Prefix = prefix } }

// WithLease sets how long a lock outlives a holder that no longer renews it. Renewals go out at a third of it, and a
// waiter never waits longer than this for a holder that was killed. Default 30 s, at least 100 ms.
func WithLease(d time.Duration) Option {
	return func(s *Settings) {
		s.Lease = d
		s.Err = errors.Join(s.Err, checkLease("WithLease", d))
	}
}

// WithLogger sets where the Locker reports what no caller is there to be told: a lock lost, a
// Lease dropped, a subscription made again. Default slog.Default(). Its handler is called as an
// [Observer] is: in order, by a goroutine of its own.
func WithLogger(logger *slog.Logger) Option {
	return func(s *Settings) {
		if logger == nil {
			s.Err = errors.Join(s.Err, Invalid("WithLogger: the logger is nil"))
			return
		}
		s.Logger = logger
	}
}

// WithIdentity sets by what a nested call is recognised as the holder's own. Default [ByContext].
func WithIdentity(identity Identity) Option {
	return func(s *Settings) {
		s.Identity = identity
		if identity != ByContext && identity != ByGoroutine {
			s.Err = errors.Join(s.Err, Invalid("WithIdentity: %d is none", identity))
		}
	}
}

// Request is what the LockOptions of one call ask for.
type Request struct {
	Lease      time.Duration
	Fixed      bool          // the lease is not renewed
	Wait       time.Duration // negative: as long as the context allows
	MaxWaiters int           // 0: no bound
	Owner      string
	Note       string
	Waited     bool               // the server has had the call wait before: it joins the line anew
	OnQueued   func(position int) // may be nil
	Replicas   lua.Replicas
	Err        error
}

// LockOption configures one call.
type LockOption func(*Request)

// Request applies options over the Locker's settings.
func (s Settings) Request(options []LockOption) (Request, error) {
	if len(options) == 0 {
		return Request{Lease: s.Lease, Wait: -1}, s.Err
	}
	r := Request{Lease: s.Lease, Wait: -1, Err: s.Err}
	for _, option := range options {
		if option == nil {
			r.Err = errors.Join(r.Err, Invalid("a LockOption is nil"))
			continue
		}
		option(&r)
	}
	return r, r.Err
}

// LeaseFor gives the call a fixed lease: it ends d after the lock was acquired and is not renewed, whatever happens
// to this process. At least 100 ms.
func LeaseFor(d time.Duration) LockOption {
	return func(r *Request) {
		r.Lease, r.Fixed = d, true
		r.Err = errors.Join(r.Err, checkLease("LeaseFor", d))
	}
}

// WaitAtMost bounds the waiting, apart from the context: after d the call returns ErrHeld. 0 tries once.
func WaitAtMost(d time.Duration) LockOption {
	return func(r *Request) {
		r.Wait = d
		if d < 0 {
			r.Err = errors.Join(r.Err, Invalid("WaitAtMost: %v is negative", d))
		}
	}
}

// MaxWaiters has the call return ErrQueueFull at once if n or more wait already. Waiters of a killed process may be
// counted for another 15 s.
func MaxWaiters(n int) LockOption {
	return func(r *Request) {
		r.MaxWaiters = n
		if n <= 0 {
			r.Err = errors.Join(r.Err, Invalid("MaxWaiters: %d is not positive", n))
		}
	}
}

// WithOwner names the owner. Whoever names the same one shares the lock, in this process or any other; the lock is
// free when the last of their holds has ended. It rules out recognition by context or goroutine.
func WithOwner(owner string) LockOption {
	return func(r *Request) {
		r.Owner = owner
		switch {
		case strings.TrimSpace(owner) == "":
			r.Err = errors.Join(r.Err, Invalid("WithOwner: the owner is empty"))
		case len(owner) > 256:
			r.Err = errors.Join(r.Err, Invalid("WithOwner: %d bytes are more than 256", len(owner)))
		}
	}
}

// OnQueued has f called, in the caller's own goroutine, when the call has to wait: with its
// position in line, 1 being next, and again at most every 5 s while the position changes. The
// call goes on when f returns: should a fair lock come meanwhile, it is held until then. If f
// panics or ends its goroutine, the call leaves nothing behind. The server looks for it among the
// first 10,000; that is work of the order of the position, so leave it out where nobody looks.
// For a plain lock the position is among the waiters of this process, and told once.
func OnQueued(f func(position int)) LockOption {
	return func(r *Request) {
		if r.OnQueued = f; f == nil {
			r.Err = errors.Join(r.Err, Invalid("OnQueued: the function is nil"))
		}
	}
}

// WithReplicas has the call succeed only once n replicas have confirmed that they have the lock, in the same round trip
// (WAIT). If fewer do within the timeout, the lock is given back and the error is ErrNotReplicated. It narrows what a
// failover can lose, and no more: replicas that did not confirm may be promoted. The timeout must be shorter than the
// client's read timeout.
func WithReplicas(n int, timeout time.Duration) LockOption {
	return func(r *Request) {
		r.replicate(lua.Replicas{N: n, Within: timeout})
		if n <= 0 {
			r.Err = errors.Join(r.Err, Invalid("WithReplicas: %d is not positive", n))
		}
	}
}

// WithFsync has the call succeed only once the server and n of its replicas have confirmed that they have the lock on disk,
// in the same round trip (WAITAOF). If that takes longer than the timeout, the lock is given back and the error is
// ErrNotReplicated. 0 replicas are a server without any: then a crash and restart of it forgets no lock that was had so.
// It narrows what a failover can lose as WithReplicas does, and no more.
//
// The server needs appendonly yes, and must be Redis or Valkey 7.2 or later: the error says so, and is errors.ErrUnsupported, where
// it is older. With appendfsync everysec a call takes up to a second. The timeout must be shorter than the client's read
// timeout. Not together with WithReplicas.
func WithFsync(n int, timeout time.Duration) LockOption {
	return func(r *Request) {
		r.replicate(lua.Replicas{N: n, Disk: true, Within: timeout})
		if n < 0 {
			r.Err = errors.Join(r.Err, Invalid("WithFsync: %d is negative", n))
		}
	}
}

// replicate notes what a call asks of replicas.
func (r *Request) replicate(need lua.Replicas) {
	both := r.Replicas.Asked() && r.Replicas.Disk != need.Disk
	r.Replicas = need
	if both {
		r.Err = errors.Join(r.Err, Invalid("WithReplicas and WithFsync: only one of them"))
	}
	if need.Within < time.Millisecond {
		r.Err = errors.Join(r.Err, Invalid("%s: a timeout of %v is less than a millisecond", r.replication(), need.Within))
	}
}

// replication is the name of the option.
func (r *Request) replication() string {
	if r.Replicas.Disk {
		return "WithFsync"
	}
	return "WithReplicas"
}

// Note is a short text that inspection shows beside the call. At most 256 bytes.
func Note(text string) LockOption {
	return func(r *Request) {
		r.Note = text
		if len(text) > 256 {
			r.Err = errors.Join(r.Err, Invalid("Note: %d bytes are more than 256", len(text)))
		}
	}
}

func checkLease(option string, d time.Duration) error {
	switch {
	case d < MinLease:
		return Invalid("%s: %v is less than %v", option, d, MinLease)
	case d > MaxLease:
		return Invalid("%s: %v is more than %v", option, d, MaxLease)
	}
	return nil
}
