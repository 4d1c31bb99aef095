package fairlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// crossing is a Locker for which the test decides when messages and answers are handled.
type crossing struct {
	*testing.T
	l    *Locker
	rdb  *redis.Client
	keys lua.Keys
}

func onCrossing(t *testing.T) *crossing {
	rdb := onEmbedded(t)
	c := &crossing{T: t, l: New(rdb), rdb: rdb}
	c.keys, _ = lua.NewKeys("fairlock", "x")
	return c
}

func (c *crossing) begin(wait time.Duration) *attempt {
	c.Helper()
	a, err := c.l.begin(&engine.Call{
		Name: "x", Keys: c.keys, Request: engine.Request{Wait: wait, Lease: c.l.core.Settings.Lease}, Began: time.Now(),
	})
	if err != nil {
		c.Fatal(err)
	}
	return a
}

// enters executes an enter of a that was sent at that time. The answer is on its way until answered
// is called.
func (c *crossing) enters(a *attempt, sent time.Time) (answered func()) {
	c.Helper()
	q := exchange{of: a.alone[:], sent: rules.ClockPair{Sent: sent}}
	q.answer, q.err = c.l.core.Server.Enter(c.Context(), c.keys, lua.Enter{
		Try: a.Try, Spare: a.ticket.Lease, Tickets: []lua.EnterTicket{{Ticket: a.ticket, Place: a.Place}},
	})
	if q.err != nil {
		c.Fatal(q.err)
	}
	return func() {
		c.l.mu.Lock()
		defer c.l.mu.Unlock()
		q.done()
		q.sent.At = q.answer.Now
		c.l.told(a, q.answer, q.answer.Tickets[0], q.sent, time.Now())
	}
}

// nobody fails the test if, at the end, any ticket has the lock or waits for it.
func (c *crossing) nobody() {
	c.Helper()
	if err := c.l.Close(); err != nil { // Close waits for leaves
		c.Fatal(err)
	}
	if n := c.rdb.Exists(context.WithoutCancel(c.Context()), c.keys.Record(), c.keys.Queue()).Val(); n != 0 {
		c.Error("the call has ended, and its ticket holds the lock or waits for it")
	}
}

// The heartbeat was sent before the grant and is executed late. By then a force has ended the hold;
// the client hears of the force last.
func TestAHeartbeatThatIsExecutedAfterAForceLeavesNothing(t *testing.T) {
	c := onCrossing(t)
	other := New(c.rdb)
	defer other.Close()
	lease, err := other.Lock(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	a := c.begin(-1)
	a.requests.Sent()
	c.enters(a, time.Now())()
	a.requests.Sent() // the heartbeat
	if err := lease.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	state, err := other.Inspect(t.Context(), "x")
	if err != nil || state.Holder == nil {
		t.Fatalf("%+v, %v", state, err)
	}
	c.l.message(fmt.Sprintf("grant %d %d %d %s %s", time.Now().UnixMicro(), lua.Claim.Milliseconds(), state.Holder.Token, a.ticket, c.keys.Record()))
	if a.Phase != rules.Granted {
		t.Fatal("the grant was not believed")
	}
	if err := other.ForceUnlock(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	c.enters(a, time.Now())()
	c.l.message(fmt.Sprintf("forced %d %s %s", state.Holder.Token, a.ticket, c.keys.Record()))
	c.nobody()
}

// Such a call joins the line anew, at its end.
func TestACallWhoseGrantWentUnheardIsToldThatItWasForced(t *testing.T) {
	c := onCrossing(t)
	other := New(c.rdb)
	defer other.Close()
	lease, err := other.Lock(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	a := c.begin(-1)
	a.requests.Sent()
	c.enters(a, time.Now())()
	if err := errors.Join(lease.Unlock(t.Context()), other.ForceUnlock(t.Context(), "x")); err != nil {
		t.Fatal(err)
	}
	a.requests.Sent()
	c.enters(a, time.Now())()
	c.l.mu.Lock()
	if a.Phase != rules.Leaving || !errors.Is(a.err, ErrLost) {
		t.Errorf("phase %d, %v", a.Phase, a.err)
	}
	c.l.mu.Unlock()
	c.nobody()
}

func TestATryThatIsGrantedTooLateToBeOfUseIsGivenBack(t *testing.T) {
	c := onCrossing(t)
	a := c.begin(0)
	a.requests.Sent()
	c.enters(a, time.Now().Add(-a.ticket.Lease))()
	if a.Phase != rules.Leaving {
		t.Fatalf("a grant that is over when it comes was taken: phase %d", a.Phase)
	}
	c.nobody()
}

// What is left of the lease is too short to be of use, and more than nothing.
func TestAWaitingCallThatIsGrantedTooLateAndGivesUpGivesItBack(t *testing.T) {
	c := onCrossing(t)
	a := c.begin(-1)
	a.requests.Sent()
	c.enters(a, time.Now().Add(-a.ticket.Lease))()
	if a.Phase != rules.Waiting {
		t.Fatalf("a grant that is over when it comes was taken: phase %d", a.Phase)
	}
	_ = c.l.giveUp(a, func() error { return context.Canceled })
	c.nobody()
}

// The server was blind to the client, and told the grant with the answer to another ticket. The
// try's own request times out only now.
func TestATryThatWasGrantedByAnotherAnswerKeepsItsLockWhenItsOwnNeverComes(t *testing.T) {
	c := onCrossing(t)
	a := c.begin(0)
	a.Call.Began = a.Call.Began.Add(-time.Minute)
	a.requests.Sent()
	answer, err := c.l.core.Server.Enter(t.Context(), c.keys, lua.Enter{Try: true, Spare: a.ticket.Lease, Tickets: []lua.EnterTicket{{Ticket: a.ticket}}})
	if err != nil {
		t.Fatal(err)
	}
	c.l.mu.Lock()
	c.l.grantedInPassing(c.keys, &lua.OtherGrant{Ticket: a.ticket, Grant: answer.Tickets[0].Grant}, time.Now())
	c.l.mu.Unlock()
	lease, err := c.l.core.Adopt(t.Context(), a.turn, time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if !c.l.took(a, exchange{of: a.alone[:], err: io.EOF}) {
		t.Error("it is not settled")
	}
	if err := c.l.Close(); err != nil { // Close waits for leaves, and gives nothing back
		t.Fatal(err)
	}
	if c.rdb.Exists(t.Context(), c.keys.Record()).Val() == 0 {
		t.Error("the lock was given back under its Lease")
	}
	_ = lease.Unlock(t.Context())
	c.nobody()
}
