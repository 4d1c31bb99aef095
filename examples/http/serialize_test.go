package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/locktest"
)

// serves returns the answer to a request for order 42, by a middleware with a line of at most two.
func serves(t *testing.T, locks *locktest.Locks, next http.HandlerFunc) *http.Response {
	t.Helper()
	byOrder := &Serializer{
		Locker: locks.Locker, Key: func(*http.Request) string { return "order:42" },
		MostInLine: 2, RetryAfter: 1500 * time.Millisecond, MostBody: 1 << 20,
	}
	answer := httptest.NewRecorder()
	byOrder.Wrap(next).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody))
	return answer.Result()
}

func TestWhoFindsTheLineFullIsNotServedAndIsToldWhenToRetry(t *testing.T) {
	t.Parallel()
	locks := locktest.New(t)
	locks.HoldElsewhere("order:42")
	locks.QueueElsewhere("order:42", 2)
	answer := serves(t, locks, func(http.ResponseWriter, *http.Request) { t.Error("it is served") })
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") != "2" {
		t.Errorf("it is told %d, %v", answer.StatusCode, answer.Header)
	}
}

func TestAHandlerIsToldThatItsLockIsLost(t *testing.T) {
	t.Parallel()
	locks := locktest.New(t)
	answer := serves(t, locks, func(w http.ResponseWriter, r *http.Request) {
		locks.Lose(Lease(r.Context()))
		<-r.Context().Done()
		if cause := context.Cause(r.Context()); !errors.Is(cause, fairlock.ErrLost) {
			t.Errorf("its context ended with %v", cause)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got %d", answer.StatusCode)
	}
}

func TestWithoutAServerNobodyIsServed(t *testing.T) {
	t.Parallel()
	locks := locktest.New(t)
	locks.Server.Stop()
	answer := serves(t, locks, func(http.ResponseWriter, *http.Request) { t.Error("it is served") })
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got %d", answer.StatusCode)
	}
}
