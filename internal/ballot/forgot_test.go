package ballot

import (
	"testing"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// A node whose clock is behind the others' gives tokens that are ahead of its clock, as it was
// told. When it has lost its data, it gives smaller ones again.
func TestACallTakesTheVoteOfANodeThatForgotTheTokensThatItWasTold(t *testing.T) {
	const told, clock = int64(9e9), int64(1e6)
	vote := func(token, at int64) *Answer {
		return &Answer{Status: Granted, Now: lua.Micros(at), Left: time.Second, Place: 5, Token: token, Since: lua.Micros(at)}
	}
	for how, hears := range map[string]func(b *Ballot, now time.Time){
		"by an answer": func(b *Ballot, now time.Time) {
			b.Answered(0, vote(clock+2, clock+2), rules.ClockPair{At: lua.Micros(clock + 2), Sent: now}, now)
		},
		"by a message": func(b *Ballot, now time.Time) {
			waits := &Answer{Status: Waits, Now: lua.Micros(clock + 1), Place: 5}
			b.Answered(0, waits, rules.ClockPair{At: lua.Micros(clock + 1), Sent: now}, now)
			m := &lua.Message{News: lua.Grants, At: lua.Micros(clock + 2), Claim: time.Second, Token: clock + 2}
			b.Heard(0, m, now.Add(time.Millisecond), 0)
		},
	} {
		t.Run(how, func(t *testing.T) {
			now := time.Now()
			b := New(3, time.Second, 0, now)
			b.Enter(0)
			b.Ended(0, false)
			old := vote(told, clock)
			b.Answered(0, old, rules.ClockPair{At: lua.Micros(clock), Sent: now}, now)
			b.Want(0, told) // the call gives it back
			if b.Vote(0) != 0 {
				t.Fatal("it keeps a vote that somebody older wants")
			}
			hears(b, now)
			if b.Vote(0) != clock+2 {
				t.Errorf("it does not take a vote that the node gave later: it has %d", b.Vote(0))
			}
			b.Want(0, clock+2)
			b.Answered(0, old, rules.ClockPair{At: lua.Micros(clock), Sent: now}, now)
			if b.Vote(0) != 0 {
				t.Errorf("it takes a vote that it gave back, token %d", b.Vote(0))
			}
			// The node's clock was set back, but it has its data.
			b.Answered(0, vote(told+1, clock-5), rules.ClockPair{At: lua.Micros(clock + 9), Sent: now}, now)
			if b.Vote(0) != told+1 {
				t.Errorf("it does not take a vote with a larger token: it has %d", b.Vote(0))
			}
		})
	}
}

func TestANodeThatHasLostItsDataHidesNoHolderThatAnotherKnows(t *testing.T) {
	began := time.Now()
	knows := &Answer{Status: Held, Now: 1, Left: time.Second, Holder: "its holder"}
	forgot := &Answer{Status: Held, Now: 1, Left: time.Minute}
	for _, order := range [][]*Answer{{knows, forgot}, {forgot, knows}} {
		b := New(3, time.Second, -1, began)
		tell := func(i int, a *Answer, now time.Time) {
			b.Enter(i)
			b.Entered(i, false)
			b.Answered(i, a, rules.ClockPair{At: 1, Sent: now}, now)
		}
		for i, a := range order {
			tell(i, a, began)
		}
		if b.Last != *knows {
			t.Errorf("what is told of the holder is %+v", b.Last)
		}
		b.Sees("", time.Minute, began)
		b.Sees("the next", time.Second/2, began)
		b.Sees("", time.Minute, began)
		if b.Last.Holder != "the next" || b.Last.Left != time.Second/2 {
			t.Errorf("after a heartbeat, what is told is %+v", b.Last)
		}
		tell(2, forgot, began.Add(time.Second))
		if b.Last != *forgot {
			t.Errorf("once its lease has ended, what is told is %+v", b.Last)
		}
	}
}

// Answers of two connections may come in the other order.
func TestACallThatAnOlderAnswerMissesWasNotPassedOver(t *testing.T) {
	now := time.Now()
	b := New(3, time.Second, 0, now)
	b.Enter(0)
	if b.PassedOver(0, 9) {
		t.Error("it never stood there")
	}
	b.Answered(0, &Answer{Status: Waits, Now: 5, Place: 5}, rules.ClockPair{At: 5, Sent: now}, now)
	for at, want := range map[lua.Micros]bool{4: false, 5: false, 6: true} {
		if got := b.PassedOver(0, at); got != want {
			t.Errorf("missing at %d: %v", at, got)
		}
	}
}
