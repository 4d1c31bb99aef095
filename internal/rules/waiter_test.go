package rules

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/lua"
)

const (
	lease = 30 * time.Second
	claim = lua.Claim
)

// t0 is now by the client's clock, s0 by the server's: a request that was sent at t0 was executed
// at s0.
var (
	t0 = time.Now()
	at = ClockPair{Sent: t0, At: s0}
)

const s0 lua.Micros = 1_700_000_000_000_000

// waiting is a ticket that nothing has happened to.
func waiting() Waiter { return Waiter{Lease: lease, Began: t0} }

// seen is a ticket that is in line.
func seen() Waiter {
	w := waiting()
	w.Told(&lua.TicketState{Status: lua.Waiting, Place: 5}, 8, at, t0, false)
	return w
}

// gone is a ticket whose leave was answered.
func gone() Waiter {
	w := seen()
	w.GivesUp(false)
	w.Left()
	return w
}

func granted(token int64, remaining time.Duration) *lua.TicketState {
	return &lua.TicketState{Status: lua.Granted, Grant: lua.Grant{Token: token, Remaining: remaining}}
}

// want fails unless the rule said what is wanted.
func want(t *testing.T, what string, got, want Step) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// Two requests without a place may each be given a place, and their answers come in either order.
func TestATicketThatWasGivenTwoPlacesStandsAtTheFirst(t *testing.T) {
	w := waiting()
	for _, answer := range []struct{ at, place, want, latest lua.Micros }{
		{s0 + 10, 6, 6, s0 + 10}, {s0, 5, 5, s0 + 10}, {s0 + 20, 9, 5, s0 + 20},
	} {
		state := lua.TicketState{Status: lua.Waiting, Place: answer.place}
		want(t, "waiting", w.Told(&state, 0, ClockPair{Sent: t0, At: answer.at}, t0, false), Step{Do: Wait})
		if w.Place != answer.want {
			t.Errorf("told of %d at %d: its place is %d, want %d", answer.place, answer.at-s0, w.Place, answer.want)
		}
		if w.Last.At != answer.latest {
			t.Errorf("told at %d: the last answer is of %d", answer.at-s0, w.Last.At-s0)
		}
	}
	resubscribed := ClockPair{Sent: t0, At: w.Last.At, Session: 1}
	w.Told(&lua.TicketState{Status: lua.Waiting, Place: 9}, 0, resubscribed, t0, false)
	if w.Last != resubscribed {
		t.Error("of two answers of the same microsecond, the last to come does not count")
	}
}

func TestAGrantedAnswerIsNotBelievedAfterALaterOneThatSaidWaiting(t *testing.T) {
	later, earlier := ClockPair{Sent: t0, At: s0 + 10}, at
	w := waiting()
	w.Told(&lua.TicketState{Status: lua.Waiting, Place: 5}, 8, later, t0, false)
	for _, token := range []int64{7, 8} {
		want(t, "an older token", w.Told(granted(token, lease), token, earlier, t0, false), Step{Do: Ask})
	}
	if w.Phase != Waiting {
		t.Error("believed")
	}
	same := w
	want(t, "at the same time", same.Told(granted(8, lease), 8, later, t0, false), Step{Do: Take, Term: Term{lease, t0.Add(lease)}})
	want(t, "a larger token", w.Told(granted(9, lease), 9, earlier, t0, false), Step{Do: Take, Term: Term{lease, t0.Add(lease)}})
}

func TestAGrantIsForAClaimWhenItDoesNotLastForLonger(t *testing.T) {
	for remaining, span := range map[time.Duration]time.Duration{
		claim: claim, claim - 1: claim, claim + 1: lease, lease: lease,
		time.Hour: time.Hour, // the server's clock was set back before it answered
	} {
		w := waiting()
		want(t, remaining.String(), w.Told(granted(5, remaining), 5, at, t0, false), Step{Do: Take, Term: Term{span, t0.Add(remaining)}})
		if w.Phase != Granted {
			t.Errorf("%v: phase %d", remaining, w.Phase)
		}
	}
	short := Waiter{Lease: time.Second, Began: t0}
	want(t, "a lease shorter than any claim", short.Told(granted(5, time.Second), 5, at, t0, false), Step{Do: Take, Term: Term{time.Second, t0.Add(time.Second)}})
}

func TestWhatIsGrantedTooLateIsAskedForAgainWhenItIsOverAndATryGivesItBack(t *testing.T) {
	trust := claim - Margin(claim) // of a grant that lasts for a claim
	for after, taken := range map[time.Duration]bool{trust - 1: true, trust: false, trust + 1: false} {
		w, try := waiting(), Waiter{Lease: lease, Try: true, Began: t0}
		now := t0.Add(after)
		ask, end := w.Told(granted(5, claim), 5, at, now, false), try.Told(granted(5, claim), 5, at, now, false)
		if taken {
			want(t, "in time", ask, Step{Do: Take, Term: Term{claim, t0.Add(claim)}})
			want(t, "in time for a try", end, ask)
			continue
		}
		want(t, "too late", ask, Step{Do: Ask, At: t0.Add(claim)})
		want(t, "too late for a try", end, Step{Do: End, Why: TooLate, Leave: true})
		want(t, "its caller gives up then", w.GivesUp(false), Step{Do: End, Why: GaveUp, Leave: true})
	}
}

func TestWhatAnAnswerEndsLeavesWhatTheServerMayHave(t *testing.T) {
	for status, why := range map[lua.Status]Why{lua.Taken: Refused, lua.Full: Full, lua.Gone: Evicted, lua.ForceEnded: Forced} {
		w := waiting()
		want(t, string(status), w.Told(&lua.TicketState{Status: status}, 0, at, t0, false), Step{Do: End, Why: why})
		if w.Phase != Gone {
			t.Errorf("%s: phase %d", status, w.Phase)
		}
		w = waiting()
		want(t, string(status)+", with a request under way", w.Told(&lua.TicketState{Status: status}, 0, at, t0, true), Step{Do: End, Why: why, Leave: true})
		if w.Phase != Leaving {
			t.Errorf("%s, with a request under way: phase %d", status, w.Phase)
		}
	}
	w := waiting()
	want(t, "nothing at all", w.Told(&lua.TicketState{Status: "neither"}, 0, at, t0, false), Step{})
}

func TestACallThatGivesUpLeavesUnlessNothingOfItReachedTheServer(t *testing.T) {
	w := waiting()
	want(t, "never sent", w.GivesUp(false), Step{Do: End, Why: GaveUp})
	w = waiting()
	want(t, "under way", w.GivesUp(true), Step{Do: End, Why: GaveUp, Leave: true})
	want(t, "twice", w.GivesUp(true), Step{})
	w = seen()
	want(t, "in line", w.GivesUp(false), Step{Do: End, Why: GaveUp, Leave: true})
	w = waiting()
	w.Told(granted(5, lease), 5, at, t0, false)
	want(t, "that has the lock", w.GivesUp(false), Step{Do: GiveBack})
}

func TestATicketThatLeavesIsRetiredIfARequestOfItMayStillBeExecuted(t *testing.T) {
	w, ticket := seen(), lua.NewTicket("c", 1, lease, "", "")
	for _, open := range []bool{true, false} {
		if got, want := w.Leave(ticket, open), (lua.LeaveTicket{Ticket: ticket, Place: 5, Retire: open}); got != want {
			t.Errorf("a waiter: %+v, want %+v", got, want)
		}
		var h Hold
		if got, want := h.Leave(ticket, 7, open), (lua.LeaveTicket{Ticket: ticket, Token: 7, Retire: open}); got != want {
			t.Errorf("a holder: %+v, want %+v", got, want)
		}
	}
	if got, want := Unknown(ticket), (lua.LeaveTicket{Ticket: ticket, Retire: true}); got != want {
		t.Errorf("one that nobody knows: %+v, want %+v", got, want)
	}
}

func TestWhoHasLeftLeavesOnceMoreWhenAnAnswerSaysThatItIsStillThere(t *testing.T) {
	for status, again := range map[lua.Status]bool{lua.Waiting: true, lua.Granted: true, lua.Taken: false, lua.Gone: false, lua.ForceEnded: false} {
		w, leaving := gone(), seen()
		leaving.GivesUp(false)
		step := Step{}
		if again {
			step.Do = LeaveLine
		}
		state := lua.TicketState{Status: status, Grant: lua.Grant{Token: 9, Remaining: lease}}
		want(t, string(status), w.Told(&state, 9, at, t0, false), step)
		want(t, string(status)+", its leave under way", leaving.Told(&state, 9, at, t0, false), Step{})
		want(t, string(status)+", and again", w.Told(&state, 9, at, t0, false), func() Step {
			if again {
				return Step{} // its leave is under way
			}
			return step
		}())
	}
	w := gone()
	want(t, "in passing", w.GrantedInPassing(&lua.Grant{Token: 9, Remaining: lease}, t0, t0, false), Step{Do: LeaveLine})
}

func TestAGrantInPassingCountsUnlessAnAnswerKnewBetter(t *testing.T) {
	for token, step := range map[int64]Step{7: {}, 8: {}, 9: {Do: Take, Term: Term{lease, t0.Add(lease)}}} {
		w := seen()
		want(t, "granted", w.GrantedInPassing(&lua.Grant{Token: token, Remaining: lease}, t0, t0, false), step)
	}
	w := waiting()
	w.Told(granted(5, lease), 5, at, t0, false)
	want(t, "that has the lock", w.GrantedInPassing(&lua.Grant{Token: 9, Remaining: lease}, t0, t0, false), Step{})
	w = waiting()
	late := w.GrantedInPassing(&lua.Grant{Token: 9}, t0, t0, false)
	want(t, "too late", late, Step{Do: Ask, At: t0})
	want(t, "and its caller gives up", w.GivesUp(false), Step{Do: End, Why: GaveUp, Leave: true})
}

func TestWhatATicketSaysOfItself(t *testing.T) {
	w := waiting()
	for i, c := range []struct {
		place       lua.Place
		first, mend bool
	}{{0, true, false}, {5, false, false}, {5, false, false}, {0, false, false}, {5, false, true}} {
		w.Place = c.place
		place, first, mend := w.Enter()
		if place != c.place || first != c.first || mend != c.mend {
			t.Errorf("request %d: place %d, first %v, mend %v, want %+v", i, place, first, mend, c)
		}
		w.Last = at
	}
	w.Place = 0
	for range 300 {
		w.Enter()
	}
	if w.Place = 5; w.Unplaced != 2 {
		t.Error("it has lost count of the requests without a place")
	}
}

func TestWhoWaitsGoesOnAfterAFailureUnlessTheServerHasNeverAnswered(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("refused")}
	wrong := proto("WRONGTYPE no")
	loading := proto("LOADING not yet")
	moving := proto("TRYAGAIN")
	for _, c := range []struct {
		what          string
		err           error
		first, waited bool // goes on
	}{
		{"an answer that was lost", io.EOF, true, true},
		{"a server that cannot be reached", refused, false, true},
		{"a pool that is full", redis.ErrPoolTimeout, true, true},
		{"a server that is starting", loading, false, true},
		{"keys that are on their way", moving, true, true},
		{"a refusal for good", wrong, false, false},
	} {
		again := waiting()
		again.Answered = true
		for _, w := range []Waiter{waiting(), seen(), again} {
			goes := w.OnServer && c.waited || w.Answered && c.waited || c.first
			step := Step{Do: Ask}
			if !goes {
				step = Step{Do: End, Why: Failed, Leave: w.OnServer}
			}
			want(t, c.what, w.Unanswered(c.err, t0, false), step)
		}
	}
	w := seen()
	w.GivesUp(true)
	want(t, "who has left", w.Unanswered(io.EOF, t0, true), Step{})
}

func TestATryInsistsForASecondOnWhatFailsUnanswered(t *testing.T) {
	for _, c := range []struct {
		err   error
		after time.Duration
		ends  bool
	}{
		{io.EOF, InsistFor, false},
		{io.EOF, InsistFor + 1, true},
		{proto("TRYAGAIN"), 0, false},
		{proto("LOADING not yet"), 0, true},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, 0, true},
	} {
		w, step := Waiter{Lease: lease, Try: true, Began: t0}, Step{Do: Ask}
		if c.ends {
			step = Step{Do: End, Why: Failed, Leave: true}
		}
		want(t, c.err.Error(), w.Unanswered(c.err, t0.Add(c.after), true), step)
	}
}

// proto is an error as the server answers it.
type proto string

func (p proto) Error() string { return string(p) }

func (proto) RedisError() {}

func TestALeaveIsRepeatedForAsLongAsItsTicketMayHaveTheLock(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{time.Second: 75 * time.Second, time.Hour: time.Hour + time.Minute} {
		if got := Patience(lease); got != want {
			t.Errorf("a lease of %v: %v, want %v", lease, got, want)
		}
	}
	if Retryable(proto("WRONGTYPE no")) || !Retryable(proto("BUSY")) || !Retryable(context.DeadlineExceeded) {
		t.Error("what is refused for good is repeated, or what passes is not")
	}
}

func TestRequestsAreOpenWhileOneMayStillBeExecuted(t *testing.T) {
	var r Requests
	r.Sent()
	r.Sent()
	r.Answered(false)
	if !r.Open() {
		t.Error("one is under way")
	}
	r.Answered(false)
	if r.Open() {
		t.Error("all were answered")
	}
	r.Sent()
	if r.Answered(true); !r.Open() {
		t.Error("an answer was lost")
	}
	r.Sent()
	if r.Answered(false); !r.Open() {
		t.Error("a later answer says nothing of the lost one")
	}
}

func TestAGrantThatOvertookTheOnlyAnswerSaysThatTheRequestWasExecuted(t *testing.T) {
	var r Requests
	r.Sent()
	if r.Overtaken(); r.Open() {
		t.Error("it was executed")
	}
	if r.EnterAnswered(true); r.Open() {
		t.Error("that its answer was lost says nothing more")
	}
	r.Sent()
	if r.EnterAnswered(false); r.Open() {
		t.Error("the next was answered")
	}
	r.Sent()
	if r.EnterAnswered(true); !r.Open() {
		t.Error("the one after that was lost")
	}
	for what, sent := range map[string]func(r *Requests){
		"two":        func(r *Requests) { r.Sent(); r.Sent() },
		"a lost one": func(r *Requests) { r.Sent(); r.Answered(true); r.Sent() },
	} {
		var r Requests
		sent(&r)
		if r.Overtaken(); !r.Open() {
			t.Errorf("%s: it is not known which was executed", what)
		}
	}
}

func TestACallThatIsTurnedAwayUnaskedLeavesNothingAndIsOverOnce(t *testing.T) {
	w := waiting()
	want(t, "turned away", w.TurnedAway(), Step{Do: End, Why: Full})
	want(t, "and again", w.TurnedAway(), Step{})
	if w.Phase != Gone {
		t.Error(w.Phase)
	}
	w = waiting()
	w.GivesUp(false)
	want(t, "one that gave up", w.TurnedAway(), Step{})
}
