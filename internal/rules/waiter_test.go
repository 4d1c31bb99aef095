package rules

import (
	"testing"
	"time"

	"github.com/fairlock/locks/lua"
)

func TestAnAnswerThatWasOvertakenByALaterOneDoesNotBringBackAnOlderPlace(t *testing.T) {
	now := time.Now()
	w := Waiter{Began: now, Lease: 30 * time.Second}
	for _, answer := range []struct{ at, place, want lua.Micros }{{s0, 5, 5}, {s0 + 20, 9, 9}, {s0 + 10, 5, 9}} {
		state := lua.TicketState{Status: lua.Waiting, Place: answer.place}
		w.Told(&state, 0, Sighting{Sent: now, At: answer.at}, now, false)
		if w.Place != answer.want {
			t.Errorf("told of %d at %d: its place is %d, want %d", answer.place, answer.at-s0, w.Place, answer.want)
		}
	}
}

func TestAGrantedAnswerIsNotBelievedAfterALaterOneThatSaidWaiting(t *testing.T) {
	now := time.Now()
	w := Waiter{Began: now, Lease: 30 * time.Second}
	w.Told(&lua.TicketState{Status: lua.Waiting, Place: 5}, 8, Sighting{Sent: now, At: s0 + 10}, now, false)
	granted := lua.TicketState{Status: lua.Granted, Grant: lua.Grant{Token: 7, Remaining: 30 * time.Second}}
	if step := w.Told(&granted, 7, Sighting{Sent: now, At: s0}, now, false); step.Do != Ask || w.Phase != Waiting {
		t.Errorf("believed: %+v", step)
	}
}
