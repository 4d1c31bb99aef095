package fairlock

import (
	"testing"
	"time"

	"github.com/fairlock/locks/lua"
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
