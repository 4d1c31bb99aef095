package lua

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// enteredReply is a reply of enter.lua for three tickets.
func enteredReply() []any {
	return []any{
		int64(1732186543123456), int64(1732186543000000), "saga+7", int64(30000), int64(1234), int64(2), int64(1), int64(1), int64(1),
		[]any{"c:9:30000::", int64(5), int64(3000), int64(1732186543123456)},
		[]any{"granted", int64(6), int64(2500), int64(1732186543123)},
		[]any{"waiting", int64(7), int64(2)},
		[]any{"full"},
	}
}

var threeTickets = []EnterTicket{{Ticket: parsed("c:1:30000::")}, {Ticket: parsed("c:2:30000::")}, {Ticket: parsed("c:3:30000::")}}

func TestAnAnswerToEnterIsDecoded(t *testing.T) {
	got, err := decodeEntered(enteredReply(), threeTickets)
	must(t, err)
	want := Entered{
		Now: 1732186543123456, Token: 1732186543000000, Holder: "saga 7", Lease: 30 * time.Second, Remaining: 1234 * time.Millisecond,
		Waiting: 2, Heard: true, Forgot: true, More: true, Grant: &OtherGrant{Ticket: parsed("c:9:30000::"), Grant: Grant{5, 3 * time.Second, 1732186543123000}},
		Tickets: []TicketState{
			{Status: Granted, Grant: Grant{6, 2500 * time.Millisecond, 1732186543123000}},
			{Status: Waiting, Place: 7, Position: 2},
			{Status: Full},
		},
	}
	equal(t, "grant", *got.Grant, *want.Grant)
	got.Grant, want.Grant = nil, nil
	equal(t, "answer", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
}

func TestTheAnswerOfAFreeLockIsDecoded(t *testing.T) {
	for ticket, holder := range map[string]string{"c:1:30000::": "c:1", "c:1:30000:saga+7:a+note": "saga 7"} {
		got, err := decodeEntered([]any{int64(1732186543123456), int64(1732186543123457)}, []EnterTicket{{Ticket: parsed(ticket)}})
		must(t, err)
		want := Entered{
			Now: 1732186543123456, Token: 1732186543123457, Holder: holder, Lease: 30 * time.Second, Remaining: 30 * time.Second,
			Tickets: []TicketState{{Status: Granted, Grant: Grant{1732186543123457, 30 * time.Second, 1732186543123000}}},
		}
		equal(t, "answer", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))

		got, err = decodeEntered([]any{int64(1732186543123457)}, []EnterTicket{{Ticket: parsed(ticket)}})
		must(t, err)
		want.Now = 1732186543123457
		equal(t, "answer of one number", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
		_, err = decodeEntered([]any{int64(0)}, []EnterTicket{{Ticket: parsed(ticket)}})
		equal(t, "no token is wrong", err != nil, true)
		_, err = decodeEntered([]any{int64(1), "2"}, []EnterTicket{{Ticket: parsed(ticket)}})
		equal(t, "a text for a token is wrong", err != nil, true)
	}
	left, err := decodeLeft([]any{int64(1)}, 1)
	must(t, err)
	equal(t, "left", fmt.Sprintf("%+v", left), fmt.Sprintf("%+v", Left{Were: []Was{Held}}))
}

func TestAnAnswerToLeaveIsDecoded(t *testing.T) {
	got, err := decodeLeft([]any{int64(1), []any{"c:9:30000::", int64(5), int64(3000), int64(7001)}, "held", "waited", "neither"}, 3)
	must(t, err)
	equal(t, "grant", *got.Grant, OtherGrant{Ticket: parsed("c:9:30000::"), Grant: Grant{5, 3 * time.Second, 7000}})
	equal(t, "more", got.More, true)
	equal(t, "states", fmt.Sprint(got.Were), "[held waited neither]")
}

// The test puts every wrong kind of value into every position of a reply, and tries every length.
func TestAnAnswerThatIsNotAsTheContractHasItIsAnError(t *testing.T) {
	broken := func(what string, reply []any) {
		if answer, err := decodeEntered(reply, threeTickets); err == nil {
			t.Errorf("%s: %+v", what, answer)
		}
	}
	whole := enteredReply()
	for i, value := range whole {
		broken(fmt.Sprint("cut at ", i), whole[:i])
		for _, other := range []any{nil, int64(-1), int64(3), "text", []any{}, []any{nil}, []any{"text", "text", "text", "text"}, 1.5} {
			if fmt.Sprintf("%T", other) == fmt.Sprintf("%T", value) && fmt.Sprint(other) != "-1" && i < 10 {
				continue // the right kind
			}
			changed := slices.Clone(whole)
			changed[i] = other
			broken(fmt.Sprintf("%v at %d", other, i), changed)
		}
	}
	broken("too long", append(enteredReply(), []any{"full"}))
	inner := []any{"granted", int64(6), int64(2500), int64(1), int64(1), int64(1)}
	for n := range len(inner) + 1 {
		if n != 4 && n != 5 { // without or with the largest token before
			broken(fmt.Sprint("a state of ", n), slices.Replace(enteredReply(), 10, 11, any(inner[:n])))
		}
	}
	for _, before := range []any{int64(6), int64(7), int64(-1), "5"} {
		broken(fmt.Sprint("a token after ", before), slices.Replace(enteredReply(), 10, 11, any(append(inner[:4:4], before))))
		if got, err := decodeEntered([]any{int64(9), int64(6), before}, threeTickets[:1]); err == nil {
			t.Errorf("the short reply with a token after %v: %+v", before, got)
		}
	}
	broken("an unknown state", slices.Replace(enteredReply(), 12, 13, any([]any{"sold"})))
	for _, reply := range [][]any{nil, {int64(0)}, {"1"}, {int64(0), []any{}}, {int64(0), []any{}, int64(1)}, {int64(0), []any{}, "held", "held"}} {
		if left, err := decodeLeft(reply, 1); err == nil {
			t.Errorf("%v: %+v", reply, left)
		}
	}
}

// A format with a precision cuts text, but pads numbers.
func TestTheErrorOfAWrongAnswerIsShort(t *testing.T) {
	_, err := decodeEntered(append(enteredReply(), "more"), threeTickets)
	if err == nil || len(err.Error()) > 500 {
		t.Fatalf("%d bytes: %.300v", len(err.Error()), err)
	}
}
