package reentrant

import (
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

func TestAForcedHoldIsLostThoughItsProcessHasTheLockAgainAndHeardOfThatFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		released(t, holding(t, l, "x")) // makes contact
		keys, err := lua.NewKeys(l.core.Settings.Prefix, "x")
		if err != nil {
			t.Fatal(err)
		}
		term := rules.Term{Span: engine.DefaultLease, Ends: time.Now().Add(engine.DefaultLease)}
		hold := func(token int64) (engine.Granted, *Lease) {
			g := engine.Granted{Keys: keys, Ticket: l.core.Ticket(&engine.Request{Lease: engine.DefaultLease}), Token: token}
			g.Requests = new(engine.Requests)
			lease, err := l.core.Adopt(t.Context(), l.core.Keep(g, engine.Run{}, term, engine.For{Name: "x"}, time.Now()), time.Now(), -1)
			if err != nil {
				t.Fatal(err)
			}
			return g, lease
		}
		forced, first := hold(1)
		_, second := hold(2)
		l.core.Forced(lua.Message{News: lua.Forces, Ticket: forced.Ticket, Record: forced.Keys.Record(), Token: forced.Token})
		if err := first.Err(); !errors.Is(err, ErrLost) {
			t.Errorf("the forced one says %v", err)
		}
		if err := second.Err(); err != nil {
			t.Errorf("the next one says %v", err)
		}
		_ = second.Unlock(t.Context()) // the server never gave it
	})
}
