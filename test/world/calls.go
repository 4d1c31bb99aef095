package world

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/conformance"
)

// What the protocol promises, and what its promises are made of.
const (
	// Claim is how long who was given a lock has to take it, where the lease is longer.
	Claim = 3 * time.Second
	// EnterInterval is how often those who wait ask.
	EnterInterval = 5 * time.Second
)

// Until returns when something holds. It must within a time that only a bug needs.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	UntilWithin(t, 20*time.Second, what, holds)
}

// UntilWithin is Until with another limit.
func UntilWithin(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(within); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("waited %v in vain until %s", within, what)
		}
	}
}

// InBackground calls Lock and returns what will be its end.
func InBackground(l fairlock.Interface, name string, options ...fairlock.LockOption) <-chan conformance.Outcome {
	result := make(chan conformance.Outcome, 1)
	go func() {
		lease, err := l.Lock(context.Background(), name, options...)
		result <- conformance.Outcome{Lease: lease, Err: err}
	}()
	return result
}

// Queue is InBackground, and returns when the call waits for certain.
func Queue(l fairlock.Interface, name string, options ...fairlock.LockOption) <-chan conformance.Outcome {
	waits := make(chan struct{})
	once := sync.OnceFunc(func() { close(waits) })
	result := InBackground(l, name, append(options, fairlock.OnQueued(func(int) { once() }))...)
	<-waits
	return result
}

// HeldAndWaitedFor is a lock of one Locker, for which the other waits.
func HeldAndWaitedFor(t *testing.T, holder, waiter conformance.Locker, name string) (*fairlock.Lease, <-chan conformance.Outcome) {
	t.Helper()
	lease, err := holder.Lock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return lease, Queue(waiter, name)
}
