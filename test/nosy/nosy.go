// Package nosy has errors of users' own types, as hooks, dialers and contexts return them.
package nosy

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Error returns an error with what err says that calls a function first, whatever it is asked. It
// is nil if err is.
func Error(err error, asked func()) error {
	if err == nil {
		return nil
	}
	return &asks{err, asked}
}

type asks struct {
	error
	asked func()
}

func (a *asks) Error() string { a.asked(); return a.error.Error() }
func (a *asks) Is(error) bool { a.asked(); return false }
func (a *asks) As(any) bool   { a.asked(); return false }
func (a *asks) Unwrap() error { a.asked(); return a.error }

// Hook is a hook of a client that has scripts fail with such an error, before they are sent.
type Hook struct {
	Asked func()       // what the error does first; to be set before Fails is called
	next  atomic.Int32 // the number of the next script; those from 1 on fail
	last  atomic.Int32 // the number of the last that fails
}

// Fails has the nth script from now on fail, and so many in all; 0: none.
func (h *Hook) Fails(n, times int32) {
	h.last.Store(0) // while the other changes, none fails
	h.next.Store(2 - n)
	h.last.Store(times)
}

// DialHook does nothing.
func (h *Hook) DialHook(next redis.DialHook) redis.DialHook { return next }

var errHooks = errors.New("the hook's own")

// ProcessHook fails or does nothing.
func (h *Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			if number := h.next.Add(1) - 1; number >= 1 && number <= h.last.Load() {
				return Error(errHooks, h.Asked)
			}
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook does nothing.
func (h *Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
