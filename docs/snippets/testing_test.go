package snippets_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/locktest"
)

// pay is the code that the guide tests.
func pay(ctx context.Context, locks fairlock.Interface, order string) error {
	return locks.Do(ctx, order, func(context.Context, *fairlock.Lease) error { return nil })
}

func TestYourCodeIsTestedWithALockerInOneLine(t *testing.T) {
	//guide:testing.md
	locks := locktest.New(t)
	err := pay(t.Context(), locks, "order:42")
	//guide:end
	must(t, err)
}

func TestALockIsLostMidway(t *testing.T) {
	locks := locktest.New(t)
	//guide:testing.md
	err := locks.Do(t.Context(), "order:42", func(ctx context.Context, lease *fairlock.Lease) error {
		locks.Lose(lease)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if !errors.Is(err, fairlock.ErrLost) {
		t.Errorf("got %v", err)
	}
	//guide:end
}

func TestACallIsInLine(t *testing.T) {
	locks := locktest.New(t)
	//guide:testing.md
	other := locks.HoldElsewhere("order:42")
	paid := make(chan error, 1)
	go func() { paid <- pay(t.Context(), locks, "order:42") }()
	locks.AwaitWaiters("order:42", 1)
	_ = other.Unlock(t.Context())
	if err := <-paid; err != nil {
		t.Error(err)
	}
	//guide:end
}

func TestALeaseEndsInNoTime(t *testing.T) {
	//guide:testing.md
	synctest.Test(t, func(t *testing.T) {
		locks := locktest.New(t)
		lease, err := locks.Lock(t.Context(), "order:42")
		if err != nil {
			t.Fatal(err)
		}
		locks.Server.Stop()          // nobody renews the lease any more
		time.Sleep(30 * time.Second) // takes no time
		if !errors.Is(lease.Err(), fairlock.ErrLost) {
			t.Errorf("got %v", lease.Err())
		}
	})
	//guide:end
}
