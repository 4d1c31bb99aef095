package fairlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/embedded"
)

// A server inside the process, for trying things out and for unit tests.
func Example() {
	server, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()

	locker := fairlock.New(rdb) // one per process
	defer locker.Close()

	ctx := context.Background()
	err = locker.Do(ctx, "order:42", func(ctx context.Context, l *fairlock.Lease) error {
		// ctx dies, with cause fairlock.ErrLost, the moment the lock can no longer be trusted.
		return pay(ctx, l.Token())
	})
	fmt.Println(err)
	// Output:
	// paid, fenced: true
	// <nil>
}

func pay(_ context.Context, token int64) error {
	fmt.Println("paid, fenced:", token > 0)
	return nil
}

func ExampleLocker_Lock() {
	locker, done := tryOut()
	defer done()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // bounds the waiting, not the lease
	defer cancel()

	lease, err := locker.Lock(ctx, "order:42", fairlock.Note("nightly run"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Unlock(ctx) // works even when ctx is done

	fmt.Println(lease.Name(), lease.Err())
	// Output: order:42 <nil>
}

func ExampleLocker_LockAll() {
	locker, done := tryOut()
	defer done()
	ctx := context.Background()

	leases, err := locker.LockAll(ctx, []string{"account:7", "account:3"}) // in one order for everybody
	if err != nil {
		fmt.Println(err)
		return
	}
	defer leases.Unlock(ctx)

	fmt.Println(leases.Names(), leases.Token("account:7") > 0)
	// Output: [account:3 account:7] true
}

func ExampleLocker_TryLock() {
	locker, done := tryOut()
	defer done()
	ctx := context.Background()
	mine, _ := locker.Lock(ctx, "order:42", fairlock.WithOwner("saga-7"))
	defer mine.Unlock(ctx)

	_, err := locker.TryLock(ctx, "order:42")
	var held *fairlock.HeldError
	if errors.As(err, &held) {
		fmt.Println("held by", held.Owner, "with", held.Waiting, "waiting")
	}
	// Output: held by saga-7 with 0 waiting
}

// Nested calls re-enter: through the context that a Lease or Do gives, or in the same goroutine
// inside Do.
func ExampleLocker_Do_nested() {
	locker, done := tryOut()
	defer done()
	_ = locker.Do(context.Background(), "account:7", func(ctx context.Context, outer *fairlock.Lease) error {
		return locker.Do(ctx, "account:7", func(_ context.Context, inner *fairlock.Lease) error {
			fmt.Println("depth", inner.Depth(), "same token:", inner.Token() == outer.Token())
			return nil
		})
	})
	// Output: depth 2 same token: true
}

// A bounded line for a flash sale: who does not fit in is told at once.
func ExampleMaxWaiters() {
	locker, done := tryOut()
	defer done()
	ctx := context.Background()
	seller, _ := locker.Lock(ctx, "sku:1")
	defer seller.Unlock(ctx)
	go func() { _, _ = locker.Lock(ctx, "sku:1", fairlock.WaitAtMost(time.Minute)) }()
	for {
		if s, _ := locker.Inspect(ctx, "sku:1"); len(s.Waiters) == 1 {
			break
		}
	}
	_, err := locker.Lock(ctx, "sku:1", fairlock.MaxWaiters(1))
	fmt.Println(errors.Is(err, fairlock.ErrQueueFull))
	// Output: true
}

// Which kind of lock it is, is for the caller to choose. The fair one is the one to begin with.
func ExampleInterface() {
	locker, done := tryOut()
	defer done()
	serialize := func(locks fairlock.Interface, key string) error {
		return locks.Do(context.Background(), key, func(context.Context, *fairlock.Lease) error { return nil })
	}
	fmt.Println(serialize(locker, "order:42"))
	// Output: <nil>
}

// Several processes as one owner: all of them hold the lock, under the same token.
func ExampleWithOwner() {
	locker, done := tryOut()
	defer done()
	ctx := context.Background()
	here, _ := locker.Lock(ctx, "order:42", fairlock.WithOwner("saga-7"))
	there, _ := locker.Lock(ctx, "order:42", fairlock.WithOwner("saga-7")) // as well from any other process
	fmt.Println(here.Token() == there.Token())
	_ = here.Unlock(ctx)
	fmt.Println("still held:", there.Err() == nil)
	_ = there.Unlock(ctx)
	// Output:
	// true
	// still held: true
}

// What is going on, and what can be done about it.
func ExampleLocker_List() {
	locker, done := tryOut()
	defer done()
	ctx := context.Background()
	lease, _ := locker.Lock(ctx, "nightly", fairlock.Note("run 7"))
	for lock, err := range locker.List(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(lock.Name, "held:", lock.Holder.Note, "waiting:", lock.Waiting)
		_ = locker.ForceUnlock(ctx, lock.Name)
	}
	fmt.Println(errors.Is(lease.Unlock(ctx), fairlock.ErrLost))
	// Output:
	// nightly held: run 7 waiting: 0
	// true
}

func tryOut() (locker *fairlock.Locker, done func()) {
	server, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	locker = fairlock.New(rdb)
	return locker, func() {
		_ = locker.Close()
		_ = rdb.Close()
		server.Close()
	}
}
