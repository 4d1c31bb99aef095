package snippets_test

import (
	"context"
	"testing"

	"github.com/fairlock/locks/fairlock/locktest"
)

func TestAnInnerCallThatIsGivenTheOuterContextReEnters(t *testing.T) {
	locker, ctx := tryOut(t), t.Context()
	depth := 0
	nested := func() error {
		//guide:faq.md
		lease, err := locker.Lock(ctx, "account:7")
		if err != nil {
			return err
		}
		defer lease.Unlock(ctx)
		inner, err := locker.Lock(lease.Context(), "account:7") // with ctx, it would wait for lease
		if err != nil {
			return err
		}
		defer inner.Unlock(ctx)
		//guide:end
		depth = inner.Depth()
		return nil
	}
	must(t, nested())
	if depth != 2 {
		t.Errorf("depth %d", depth)
	}
}

func TestAnInnerCallThatIsNotWaitsForItselfAndShowSays(t *testing.T) {
	locker := tryOut(t)
	outer := take(t, locker, "account:7")
	queues(t, locker, "account:7")
	state, err := locker.Inspect(t.Context(), "account:7")
	must(t, err)
	if process(state.Waiters[0].ID) != process(outer.Owner()) {
		t.Errorf("%s waits for %s", state.Waiters[0].ID, outer.Owner())
	}
}

func TestYourCodeIsTestedWithTheEmbeddedServer(t *testing.T) {
	//guide:faq.md
	locks := locktest.New(t)
	//guide:end
	must(t, take(t, locks, "x").Unlock(t.Context()))
}

func TestSeveralLocksAreHadInOneOrder(t *testing.T) {
	locker, ctx := tryOut(t), t.Context()
	moved := false
	move := func(_ context.Context, first, second int64) error {
		moved = first > 0 && second > 0
		return nil
	}
	transfer := func() error {
		//guide:faq.md
		leases, err := locker.LockAll(ctx, []string{"account:7", "account:3"})
		if err != nil {
			return err
		}
		defer leases.Unlock(ctx)
		return move(leases.Context(), leases.Token("account:3"), leases.Token("account:7"))
		//guide:end
	}
	must(t, transfer())
	if !moved {
		t.Error("nothing was moved")
	}
}
