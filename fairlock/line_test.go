package fairlock

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock/embedded"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/reentrant"
)

func TestAnAnswerThatWasOvertakenByALaterOneDoesNotBringBackAnOlderPlace(t *testing.T) {
	l := New(unreachable(t))
	defer l.Close()
	a := &attempt{began: time.Now(), ticket: lua.Ticket{Client: l.core.ID, Counter: 1, Lease: 30 * time.Second}}
	a.keys, _ = lua.NewKeys("fairlock", "x")
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, answer := range []struct{ at, place, want lua.Micros }{{s0, 5, 5}, {s0 + 20, 9, 9}, {s0 + 10, 5, 9}} {
		l.told(a, lua.Entered{}, lua.TicketState{Status: lua.Waiting, Place: answer.place}, sighting{sent: a.began, at: answer.at})
		if a.place != answer.want {
			t.Errorf("told of %d at %d: its place is %d, want %d", answer.place, answer.at-s0, a.place, answer.want)
		}
	}
	l.settle(a, nil, ErrClosed)
}

func TestAGrantedAnswerIsNotBelievedAfterALaterOneThatSaidWaiting(t *testing.T) {
	l := New(unreachable(t))
	defer l.Close()
	a := &attempt{began: time.Now(), ticket: lua.Ticket{Client: l.core.ID, Counter: 1, Lease: 30 * time.Second}}
	a.keys, _ = lua.NewKeys("fairlock", "x")
	a.text = a.ticket.String()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told(a, lua.Entered{Token: 8}, lua.TicketState{Status: lua.Waiting, Place: 5}, sighting{sent: a.began, at: s0 + 10})
	grant := lua.Grant{Ticket: a.text, Token: 7, Remaining: 30 * time.Second}
	l.told(a, lua.Entered{Token: 7}, lua.TicketState{Status: lua.Granted, Grant: grant}, sighting{sent: a.began, at: s0})
	if a.state != waiting {
		t.Error("believed")
	}
	l.settle(a, nil, ErrClosed)
}

// It does so between the arrival of the answer and the moment in which that is taken in.
func TestACallThatGivesUpAsItsAnswerComesLeavesNothing(t *testing.T) {
	server, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	keys, _ := lua.NewKeys("fairlock", "x")
	for what, request := range map[string]reentrant.Request{"lock": {Wait: -1}, "try": {}} {
		l := New(rdb)
		request.Lease = l.core.Settings.Lease
		a, err := l.begin(t.Context(), "x", keys, request)
		if err != nil {
			t.Fatal(err)
		}
		if q := l.ask(t.Context(), false, []*attempt{a}); q.err != nil || q.answer.Tickets[0].Status != lua.Granted {
			t.Fatalf("%s: %v, %v", what, q.answer, q.err)
		}
		_ = l.giveUp(a, func() error { return context.Canceled })
		if err := l.Close(); err != nil { // which waits for the leave
			t.Fatal(err)
		}
		if rdb.Exists(t.Context(), keys.Record()).Val() != 0 {
			t.Errorf("%s: the lock is held, and nobody knows", what)
		}
	}
}
