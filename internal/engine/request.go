package engine

import (
	"errors"
	"strings"
	"time"

	"github.com/fairlock/locks/lua"
)

// Request is what the LockOptions of one call ask for.
type Request struct {
	Lease      time.Duration
	Fixed      bool          // the lease is not renewed
	Wait       time.Duration // negative: as long as the context allows
	MaxWaiters int           // 0: no bound
	Owner      string
	Note       string
	Answered   bool               // the server has answered this call before
	OnQueued   func(position int) // may be nil
	Replicas   lua.Replicas
	Err        error
}

// Shares reports whether the call may have a turn on the hold of another, or share its own. An
// owner's hold may be of several processes. A fixed lease, or replicas' word, is for one call.
func (r *Request) Shares() bool { return r.Owner == "" && !r.Fixed && !r.Replicas.Asked() }

// LockOption configures one call. Only this package makes any.
type LockOption interface{ apply(Request) Request }

type lockOption func(Request) Request

func (o lockOption) apply(r Request) Request { return o(r) }

// Request applies options over the Locker's settings. What is wrong with them is in its Err.
func (s *Settings) Request(options []LockOption) Request {
	r := Request{Lease: s.Lease, Wait: -1, Err: s.Err}
	for _, o := range options {
		if o == nil {
			r.Err = errors.Join(r.Err, Invalid("a LockOption is nil"))
			continue
		}
		r = o.apply(r)
	}
	return r
}

// LeaseFor gives the call a fixed lease, which is not renewed.
func LeaseFor(d time.Duration) LockOption {
	return lockOption(func(r Request) Request {
		r.Lease, r.Fixed = d, true
		r.Err = errors.Join(r.Err, checkLease("LeaseFor", d))
		return r
	})
}

// WaitAtMost bounds the waiting, apart from the context. 0 tries once.
func WaitAtMost(d time.Duration) LockOption {
	return lockOption(func(r Request) Request {
		r.Wait = d
		if d < 0 {
			r.Err = errors.Join(r.Err, Invalid("WaitAtMost: %v is negative", d))
		}
		return r
	})
}

// MaxWaiters makes the call return ErrQueueFull at once if n or more calls wait already.
func MaxWaiters(n int) LockOption {
	return lockOption(func(r Request) Request {
		r.MaxWaiters = n
		if n <= 0 {
			r.Err = errors.Join(r.Err, Invalid("MaxWaiters: %d is not positive", n))
		}
		return r
	})
}

// WithOwner names the owner. All calls that name the same owner share the lock.
func WithOwner(owner string) LockOption {
	return lockOption(func(r Request) Request {
		r.Owner = owner
		switch {
		case strings.TrimSpace(owner) == "":
			r.Err = errors.Join(r.Err, Invalid("WithOwner: the owner is empty"))
		case len(owner) > lua.MaxOwner:
			r.Err = errors.Join(r.Err, Invalid("WithOwner: %d bytes are more than %d", len(owner), lua.MaxOwner))
		}
		return r
	})
}

// OnQueued makes a call that has to wait call f, in the caller's own goroutine.
func OnQueued(f func(position int)) LockOption {
	return lockOption(func(r Request) Request {
		if r.OnQueued = f; f == nil {
			r.Err = errors.Join(r.Err, Invalid("OnQueued: the function is nil"))
		}
		return r
	})
}

// WithReplicas makes the call succeed only once n replicas have confirmed that they have the lock.
func WithReplicas(n int, timeout time.Duration) LockOption {
	return lockOption(func(r Request) Request {
		r.replicate(lua.Replicas{N: n, Within: timeout})
		if n <= 0 {
			r.Err = errors.Join(r.Err, Invalid("WithReplicas: %d is not positive", n))
		}
		return r
	})
}

// WithFsync makes the call succeed only once the server and n of its replicas have confirmed that
// they have the lock on disk.
func WithFsync(n int, timeout time.Duration) LockOption {
	return lockOption(func(r Request) Request {
		r.replicate(lua.Replicas{N: n, Disk: true, Within: timeout})
		if n < 0 {
			r.Err = errors.Join(r.Err, Invalid("WithFsync: %d is negative", n))
		}
		return r
	})
}

// replicate notes what a call asks of replicas.
func (r *Request) replicate(need lua.Replicas) {
	both := r.Replicas.Asked() && r.Replicas.Disk != need.Disk
	r.Replicas = need
	if both {
		r.Err = errors.Join(r.Err, Invalid("WithReplicas and WithFsync: only one of them"))
	}
	switch {
	case need.Within < time.Millisecond:
		r.Err = errors.Join(r.Err, Invalid("%s: a timeout of %v is less than a millisecond", r.replication(), need.Within))
	case need.Within > MaxLease:
		r.Err = errors.Join(r.Err, Invalid("%s: a timeout of %v is more than %v", r.replication(), need.Within, MaxLease))
	}
}

// replication is the name of the option.
func (r *Request) replication() string {
	if r.Replicas.Disk {
		return "WithFsync"
	}
	return "WithReplicas"
}

// Note is a short text that inspection shows beside the call.
func Note(text string) LockOption {
	return lockOption(func(r Request) Request {
		r.Note = text
		if len(text) > lua.MaxNote {
			r.Err = errors.Join(r.Err, Invalid("Note: %d bytes are more than %d", len(text), lua.MaxNote))
		}
		return r
	})
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
