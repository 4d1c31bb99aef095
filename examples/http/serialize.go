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

// Serializer is a middleware that has requests with the same key wait for each other, over all servers that use the same Redis: one
// at a time, first come, first served.
type Serializer struct {
	Locker     *fairlock.Locker
	Key        func(*http.Request) string // the lock's name; "": the request waits for nobody
	MostInLine int                        // who finds more waiting is sent away with 429 Too Many Requests,
	RetryAfter time.Duration              // and told to come back after that
	MostBody   int64                      // bytes of a request's body
}

// Wrap returns a handler that calls next under the lock. Its request's context ends, with cause fairlock.ErrLost, when the lock can
// no longer be trusted, and Lease finds the Lease in it.
func (s *Serializer) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := s.Key(r)
		if key == "" {
			next.ServeHTTP(w, r)
			return
		}
		// Only once the body was read does net/http notice that the client has gone, and end the request's context. So it is read
		// now: who has gone is to leave the line.
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
		case err == nil, served: // what to answer was for the handler to say
		case errors.Is(err, fairlock.ErrQueueFull):
			w.Header().Set("Retry-After", strconv.Itoa(int((s.RetryAfter+time.Second-1)/time.Second)))
			http.Error(w, "too many are waiting", http.StatusTooManyRequests)
		case r.Context().Err() != nil: // nobody is there to be answered
		default:
			http.Error(w, "the lock is not to be had", http.StatusServiceUnavailable)
		}
	})
}

type leaseKey struct{}

// Lease is what a handler holds while it serves the request with this context; nil if that waits for nobody.
func Lease(ctx context.Context) *fairlock.Lease {
	lease, _ := ctx.Value(leaseKey{}).(*fairlock.Lease)
	return lease
}
