package lua

import (
	"math"
	"time"
)

// reader takes a reply apart, one element after the other. It never panics: wrong says that
// something was not as the script's contract has it.
type reader struct {
	list  []any
	wrong bool
}

// decoded is answer, if r has read the reply to its end and nothing in the reply was wrong.
func decoded[T any](answer T, r *reader, verb string, reply []any) (T, error) {
	if r.wrong || len(r.list) > 0 {
		var none T
		return none, WrongReply(verb, reply)
	}
	return answer, nil
}

func (r *reader) next() any {
	if len(r.list) == 0 {
		r.wrong = true
		return nil
	}
	v := r.list[0]
	r.list = r.list[1:]
	return v
}

// int takes a number that Redis' Lua can hold exactly.
func (r *reader) int() int64 {
	n, ok := r.next().(int64)
	r.wrong = r.wrong || !ok || n < 0 || n >= 1<<53
	return n
}

// token takes the token of a grant.
func (r *reader) token() int64 {
	n := r.int()
	r.wrong = r.wrong || n == 0
	return n
}

// unused takes the largest token before that of a grant. Nothing is known to be unused if the server
// knows of none: it may have forgotten.
func (r *reader) unused(t *TicketState) {
	if last := r.int(); last > 0 {
		t.Unused = t.Grant.Token - last - 1
		r.wrong = r.wrong || t.Unused < 0
	}
}

// millis takes a time that a Duration can hold.
func (r *reader) millis() time.Duration {
	n := r.int()
	r.wrong = r.wrong || n > math.MaxInt64/int64(time.Millisecond)
	return fromMillis(n)
}

func (r *reader) string() string {
	s, ok := r.next().(string)
	r.wrong = r.wrong || !ok
	return s
}

// ticket takes a ticket on the wire.
func (r *reader) ticket() Ticket {
	t, err := ParseTicket(r.string())
	r.wrong = r.wrong || err != nil
	return t
}

func (r *reader) inner() reader {
	list, ok := r.next().([]any)
	return reader{list: list, wrong: !ok}
}

func (r *reader) strings() []string {
	in := r.inner()
	var all []string
	for len(in.list) > 0 {
		all = append(all, in.string())
	}
	r.wrong = r.wrong || in.wrong
	return all
}

// grant reads {} or {ticket, token, remaining ms, since us}, with a run or without.
func (r *reader) grant() *OtherGrant {
	in := r.inner()
	if len(in.list) == 0 {
		r.wrong = r.wrong || in.wrong
		return nil
	}
	g := &OtherGrant{Ticket: in.ticket(), Grant: Grant{Token: in.token(), Remaining: in.millis(), Since: Micros(in.int())}}
	g.Since -= g.Since % 1000
	if len(in.list) > 0 {
		g.Run = in.string()
		in.wrong = in.wrong || g.Run != "" && Counters(g.Run) == nil
	}
	r.wrong = r.wrong || in.wrong || len(in.list) > 0
	return g
}

func (r *reader) state() TicketState {
	in := r.inner()
	state := TicketState{Status: Status(in.string())}
	if state.Status == "returned" {
		state.Status, state.Returned = Waiting, true
	}
	switch state.Status {
	case Granted:
		state.Grant = Grant{Token: in.token(), Remaining: in.millis(), Since: microsFromMillis(in.int())}
		if len(in.list) > 0 {
			in.unused(&state)
		}
	case Waiting:
		state.Place, state.Position = Place(in.int()), int(in.int())
	case Taken, Full, Gone, ForceEnded:
	default:
		in.wrong = true
	}
	r.wrong = r.wrong || in.wrong || len(in.list) > 0
	return state
}
