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

var threeTickets = []EnterTicket{{Ticket: "c:1:30000::"}, {Ticket: "c:2:30000::"}, {Ticket: "c:3:30000::"}}

func TestAnAnswerToEnterIsDecoded(t *testing.T) {
	got, err := decodeEntered(enteredReply(), threeTickets)
	must(t, err)
	want := Entered{
		Now: 1732186543123456, Token: 1732186543000000, Holder: "saga 7", Lease: 30 * time.Second, Remaining: 1234 * time.Millisecond,
		Waiting: 2, Heard: true, Forgot: true, More: true, Grant: &Grant{"c:9:30000::", 5, 3 * time.Second, 1732186543123000},
		Tickets: []TicketState{
			{Status: Granted, Grant: Grant{"c:1:30000::", 6, 2500 * time.Millisecond, 1732186543123000}},
			{Status: Waiting, Place: 7, Position: 2},
			{Status: Full},
		},
	}
	equal(t, "grant", *got.Grant, *want.Grant)
	got.Grant, want.Grant = nil, nil
	equal(t, "answer", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
}

func TestTheAnswerOfAFreeLockIsDecoded(t *testing.T) {
	for ticket, holder := range map[string]string{"c:1:30000::": "c:1", "c:1:30000:saga+7:a note": "saga 7"} {
		got, err := decodeEntered([]any{int64(1732186543123456), int64(1732186543123457)}, []EnterTicket{{Ticket: ticket}})
		must(t, err)
		want := Entered{
			Now: 1732186543123456, Token: 1732186543123457, Holder: holder, Lease: 30 * time.Second, Remaining: 30 * time.Second,
			Tickets: []TicketState{{Status: Granted, Grant: Grant{ticket, 1732186543123457, 30 * time.Second, 1732186543123000}}},
		}
		equal(t, "answer", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
		_, err = decodeEntered([]any{int64(1), "2"}, []EnterTicket{{Ticket: ticket}})
		equal(t, "a text for a token is wrong", err != nil, true)
	}
	left, err := decodeLeft([]any{int64(1)}, 1)
	must(t, err)
	equal(t, "left", fmt.Sprintf("%+v", left), fmt.Sprintf("%+v", Left{States: []Status{Held}}))
}

func TestAnAnswerToLeaveIsDecoded(t *testing.T) {
	got, err := decodeLeft([]any{int64(1), []any{"c:9:30000::", int64(5), int64(3000), int64(7001)}, "held", "waiting", "none"}, 3)
	must(t, err)
	equal(t, "grant", *got.Grant, Grant{"c:9:30000::", 5, 3 * time.Second, 7000})
	equal(t, "more", got.More, true)
	equal(t, "states", fmt.Sprint(got.States), "[held waiting none]")
}

// Every other kind of value in every position of a reply, and every length.
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
				continue // of the right kind
			}
			changed := slices.Clone(whole)
			changed[i] = other
			broken(fmt.Sprintf("%v at %d", other, i), changed)
		}
	}
	broken("too long", append(enteredReply(), []any{"full"}))
	inner := []any{"granted", int64(6), int64(2500), int64(1), int64(1)}
	for n := range inner {
		if n != 4 {
			broken(fmt.Sprint("a state of ", n), slices.Replace(enteredReply(), 10, 11, any(inner[:n])))
		}
	}
	broken("a state of 5", slices.Replace(enteredReply(), 10, 11, any(inner)))
	broken("an unknown state", slices.Replace(enteredReply(), 12, 13, any([]any{"sold"})))
	for _, reply := range [][]any{nil, {int64(0)}, {"1"}, {int64(0), []any{}}, {int64(0), []any{}, int64(1)}, {int64(0), []any{}, "held", "held"}} {
		if left, err := decodeLeft(reply, 1); err == nil {
			t.Errorf("%v: %+v", reply, left)
		}
	}
}

// A precision in a format cuts text and pads numbers.
func TestTheErrorOfAWrongAnswerIsShort(t *testing.T) {
	_, err := decodeEntered(append(enteredReply(), "more"), threeTickets)
	if err == nil || len(err.Error()) > 500 {
		t.Fatalf("%d bytes: %.300v", len(err.Error()), err)
	}
}

// tree builds any reply that a server can send out of any bytes.
func tree(data *[]byte, depth int) any {
	if len(*data) == 0 {
		return nil
	}
	b := (*data)[0]
	*data = (*data)[1:]
	n := min(int(b>>3), len(*data))
	switch b % 8 {
	case 0, 1:
		if depth == 0 {
			return []any{}
		}
		list := []any{}
		for range n {
			list = append(list, tree(data, depth-1))
		}
		return list
	case 2, 3:
		text := string((*data)[:n])
		*data = (*data)[n:]
		return text
	case 4:
		return int64(n) << (n * 2)
	case 5:
		return -int64(n)
	case 6:
		return []any{nil, true, 1.5, fmt.Errorf("ERR"), map[any]any{"a": 1}}[n%5]
	default:
		return []string{"granted", "waiting", "held", "full", "gone", "none"}[n%6]
	}
}

func FuzzDecodeEntered(f *testing.F) {
	f.Add([]byte{}, 0)
	f.Add([]byte{4, 4, 2, 4, 4, 4, 4, 4, 4, 0, 32, 7, 4, 4, 4}, 1)
	f.Add([]byte{12, 12, 2, 4, 4, 4, 12, 4, 4, 33, 26, 'a', 'b', 'c', 12, 12, 12, 8, 31}, 1)
	f.Add([]byte{255, 6, 14, 22, 30, 38, 5, 13}, 3)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		var reply []any
		for len(data) > 0 {
			reply = append(reply, tree(&data, 4))
		}
		tickets := make([]EnterTicket, uint(n)%5)
		if answer, err := decodeEntered(reply, tickets); err == nil {
			usual := len(reply) == 2 && len(tickets) == 1
			if len(answer.Tickets) != len(tickets) || len(reply) != 10+len(tickets) && !usual || answer.Now < 0 || answer.Waiting < 0 {
				t.Fatalf("%v is %+v", reply, answer)
			}
		} else if answer.Tickets != nil {
			t.Fatalf("%v: %+v with %v", reply, answer, err)
		}
		if left, err := decodeLeft(reply, len(tickets)); err == nil && len(left.States) != len(tickets) {
			t.Fatalf("%v is %+v", reply, left)
		}
	})
}
