package world

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/conformance"
	"github.com/fairlock/locks/test/poll"
)

// These are times that the protocol promises, or from which its promises are made.
const (
	// Claim is how long a call has to confirm a grant, if the lease is longer.
	Claim = 3 * time.Second
	// EnterInterval is how often waiting calls ask the server.
	EnterInterval = 5 * time.Second
)

// Until returns when a condition holds. It fails after a time that only a bug needs.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	UntilWithin(t, 20*time.Second, what, holds)
}

// UntilWithin is Until with another limit.
func UntilWithin(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	if !poll.Until(within, holds) {
		t.Fatalf("waited %v in vain until %s", within, what)
	}
}

// InBackground calls Lock and returns a channel for the outcome.
func InBackground(l fairlock.Interface, name string, options ...fairlock.LockOption) <-chan conformance.Outcome {
	result := make(chan conformance.Outcome, 1)
	go func() {
		lease, err := l.Lock(context.Background(), name, options...)
		result <- conformance.Outcome{Lease: lease, Err: err}
	}()
	return result
}

// Queue is InBackground, but returns only when the call certainly waits.
func Queue(l fairlock.Interface, name string, options ...fairlock.LockOption) <-chan conformance.Outcome {
	waits := make(chan struct{})
	once := sync.OnceFunc(func() { close(waits) })
	result := InBackground(l, name, append(options, fairlock.OnQueued(func(int) { once() }))...)
	<-waits
	return result
}

// HeldAndWaitedFor returns a lock that one Locker holds and for which the other waits.
func HeldAndWaitedFor(t *testing.T, holder, waiter conformance.Locker, name string) (*fairlock.Lease, <-chan conformance.Outcome) {
	t.Helper()
	lease, err := holder.Lock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return lease, Queue(waiter, name)
}
