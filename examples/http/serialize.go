package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// Serializer is a middleware. Requests with the same key wait for each other, over all servers that
// use the same Redis: one at a time, first come, first served.
type Serializer struct {
	Locker     *fairlock.Locker
	Key        func(*http.Request) string // the lock's name; "": the request does not wait
	MostInLine int                        // if more are waiting, a request gets 429 Too Many Requests,
	RetryAfter time.Duration              // and is told to come back after this time
	MostBody   int64                      // the largest body, in bytes
}

// Wrap returns a handler that calls next under the lock. When the lock can no longer be trusted,
// the context of next's request ends with the cause fairlock.ErrLost. [Lease] finds the Lease in
// that context.
func (s *Serializer) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := s.Key(r)
		if key == "" {
			next.ServeHTTP(w, r)
			return
		}
		// Read the body now: net/http notices that the client has gone, and ends the request's
		// context, only after the body was read. And a client that has gone has to leave the line.
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.MostBody))
		if err != nil {
			http.Error(w, "the body is too long, or cannot be read", http.StatusRequestEntityTooLarge)
			return
		}
		served := false
		err = s.Locker.Do(r.Context(), key, func(ctx context.Context, lease *fairlock.Lease) error {
			served = true
			r := r.WithContext(context.WithValue(ctx, leaseKey{}, lease))
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
			return nil
		}, fairlock.MaxWaiters(s.MostInLine), fairlock.Note(r.RemoteAddr))
		switch {
		case err == nil, served: // the handler has answered
		case errors.Is(err, fairlock.ErrQueueFull):
			w.Header().Set("Retry-After", strconv.Itoa(int((s.RetryAfter+time.Second-1)/time.Second)))
			http.Error(w, "too many are waiting", http.StatusTooManyRequests)
		case r.Context().Err() != nil: // the client has gone: there is nobody to answer
		default:
			http.Error(w, "the lock is not to be had", http.StatusServiceUnavailable)
		}
	})
}

type leaseKey struct{}

// Lease returns the Lease of the handler that serves the request with this context. It returns nil
// if the request did not have to wait for others.
func Lease(ctx context.Context) *fairlock.Lease {
	lease, _ := ctx.Value(leaseKey{}).(*fairlock.Lease)
	return lease
}
