package reentrant

import (
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/fairlock/locks/lua"
)

func TestAForcedHoldIsLostThoughItsProcessHasTheLockAgainAndHeardOfThatFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		first := holding(t, l, "x")
		forced, term := first.grip.hold.Granted, first.grip.hold.Term
		next := forced
		next.Ticket = l.core.Ticket(Request{Lease: DefaultLease})
		next.Text, next.Requests = next.Ticket.String(), new(Requests)
		next.Token++
		second, err := l.core.Keeper.Adopt(t.Context(), l.core.Keeper.Begin(next, term, false), time.Now(), -1)
		if err != nil {
			t.Fatal(err)
		}
		l.core.Keeper.Forced(lua.Message{Ticket: forced.Ticket, Text: forced.Text, Record: forced.Keys.Record(), Token: forced.Token, Forced: true})
		if err := first.Err(); !errors.Is(err, ErrLost) {
			t.Errorf("the forced one says %v", err)
		}
		if err := second.Err(); err != nil {
			t.Errorf("the next one says %v", err)
		}
		_ = second.Unlock(t.Context()) // the server never gave it
	})
}
