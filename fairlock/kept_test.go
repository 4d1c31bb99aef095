package fairlock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// News of the call's present position may have come meanwhile, too.
func TestACallWhoseWaitEndsWhileItsCallbackRunsIsNotToldAgainWhereItStands(t *testing.T) {
	l := New(unreachable(t))
	defer l.Close()
	for what, c := range map[string]struct {
		ends func(a *attempt, cancel func())
		want error
		wait time.Duration
	}{
		"it is settled":       {func(a *attempt, _ func()) { l.carryOut(a, a.GivesUp(false), ErrClosed) }, ErrClosed, -1},
		"its context ends":    {func(_ *attempt, cancel func()) { cancel() }, context.Canceled, -1},
		"its time to wait is": {func(*attempt, func()) { time.Sleep(2 * time.Millisecond) }, context.DeadlineExceeded, time.Millisecond},
	} {
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			ticket := lua.NewTicket(l.core.ID, 1, 100*time.Millisecond, "", "")
			a := &attempt{Waiter: rules.Waiter{Began: time.Now(), Lease: ticket.Lease}, ticket: ticket, requests: new(engine.Requests), lastPosition: 2}
			a.Keys, _ = lua.NewKeys("fairlock", "x")
			told := 0
			a.Request.Wait = c.wait
			a.Request.OnQueued = func(int) {
				l.mu.Lock()
				defer l.mu.Unlock()
				a.lastPosition--
				a.moved()
				if told++; told == 1 {
					c.ends(a, cancel)
				}
			}
			if _, err := l.await(ctx, a); !errors.Is(err, c.want) || told > 1 {
				t.Errorf("%s: told %d times, %v", what, told, err)
			}
			cancel()
		}
	}
}
