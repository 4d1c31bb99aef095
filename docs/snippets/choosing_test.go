package snippets_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/locktest"
	"github.com/fairlock/locks/test/redistest"
)

// tryOut is a Locker on an embedded server.
func tryOut(t *testing.T) *fairlock.Locker {
	t.Helper()
	return locktest.New(t).Locker
}

func embeddedClient(t *testing.T) *redis.Client {
	t.Helper()
	return locktest.New(t).Server.Client()
}

// take takes the lock until the end of the test.
func take(t *testing.T, locker fairlock.Interface, name string, options ...fairlock.LockOption) *fairlock.Lease {
	t.Helper()
	lease, err := locker.Lock(t.Context(), name, options...)
	must(t, err)
	t.Cleanup(func() { _ = lease.Unlock(context.Background()) }) // the test may have done that
	return lease
}

// queues has somebody wait for a lock until the end of the test.
func queues(t *testing.T, locker fairlock.Interface, name string, options ...fairlock.LockOption) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	waits, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		lease, _ := locker.Lock(ctx, name, append(options, fairlock.OnQueued(func(int) { close(waits) }))...)
		_ = lease.Unlock(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-over
	})
	<-waits
}

func TestOneStatementNeverOversells(t *testing.T) {
	db := database(t, "fencing.md")
	_, err := db.ExecContext(t.Context(), `INSERT INTO stock (sku, n) VALUES ('vase', 2)`)
	must(t, err)
	for _, want := range []int64{1, 1, 0, 0} {
		done, err := db.ExecContext(t.Context(), blocks(guides(t)["choosing.md"], "sql")[0])
		must(t, err)
		if n, err := done.RowsAffected(); err != nil || n != want {
			t.Errorf("%d rows changed, want %d (%v)", n, want, err)
		}
	}
}

func TestTheKindIsForTheCallerToChoose(t *testing.T) {
	rdb := embeddedClient(t)
	//guide:choosing.md
	var locks fairlock.Interface = fairlock.New(rdb) // or reentrant.New(rdb), or quorum.New(nodes)
	defer locks.Close()
	//guide:end
	must(t, locks.Do(t.Context(), "any", func(context.Context, *fairlock.Lease) error { return nil }))
}

func TestAJobThatIsBeingDoneIsSkipped(t *testing.T) {
	locker, ctx := tryOut(t), t.Context()
	runs := 0
	nightly := func() error {
		//guide:choosing.md
		lease, err := locker.TryLock(ctx, "nightly")
		if errors.Is(err, fairlock.ErrHeld) {
			return nil // it is being done: errors.As with a *HeldError tells by whom, and for how long yet
		}
		if err != nil {
			return err // nobody knows: the server did not answer
		}
		defer lease.Unlock(ctx)
		//guide:end
		runs++
		return nil
	}
	must(t, nightly())
	take(t, locker, "nightly")
	must(t, nightly())
	if runs != 1 {
		t.Errorf("it ran %d times", runs)
	}
}

func TestARequestWaitsNotForLongAndNotBehindMany(t *testing.T) {
	locks, ctx := locktest.New(t), t.Context()
	locker := locks.Locker
	served := 0
	serve := func(context.Context, *fairlock.Lease) error {
		served++
		return nil
	}
	answer := func() int {
		//guide:choosing.md
		err := locker.Do(ctx, "customer:7", serve, fairlock.WaitAtMost(2*time.Second), fairlock.MaxWaiters(50))
		switch {
		case errors.Is(err, fairlock.ErrQueueFull), errors.Is(err, fairlock.ErrHeld):
			return http.StatusTooManyRequests // come back later
		case err != nil:
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
		//guide:end
	}
	if got := answer(); got != http.StatusOK || served != 1 {
		t.Errorf("%d, served %d times", got, served)
	}
	locks.HoldElsewhere("customer:7")
	locks.QueueElsewhere("customer:7", 50)
	if got := answer(); got != http.StatusTooManyRequests || served != 1 {
		t.Errorf("%d, served %d times", got, served)
	}
}

func TestALockThatNoReplicaHasIsGivenBack(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	locker, ctx := fairlock.New(rdb), t.Context()
	defer locker.Close()
	payout := func() error {
		//guide:choosing.md
		lease, err := locker.Lock(ctx, "payout", fairlock.WithReplicas(1, 200*time.Millisecond))
		if errors.Is(err, fairlock.ErrNotReplicated) {
			return err // nobody confirmed it in time; it was given back
		}
		//guide:end
		_ = lease.Unlock(ctx)
		return err
	}
	if err := payout(); !errors.Is(err, fairlock.ErrNotReplicated) {
		t.Error(err)
	}
	take(t, locker, "payout")
}
