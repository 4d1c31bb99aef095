package lua

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Hold is one hold of a record.
type Hold struct {
	Ticket   Ticket
	Deadline Micros
	Depth    int
	Turn     Ticket // the ticket that has its turn on the hold; zero: the hold's own
}

// Waiter is one place in line.
type Waiter struct {
	Ticket  Ticket
	Place   Place
	element string // as found in the line; empty: as this package writes it
}

// State is what Inspect saw.
type State struct {
	Now       Micros
	Token     int64 // the largest given
	Held      bool
	Owner     string // empty over a placeholder: the server has forgotten who
	HeldToken int64  // 0: the record has none
	Since     Micros
	Remaining time.Duration
	Holds     []Hold
	Waiting   int      // length of the line
	Page      int      // how many places of the line were looked at
	Waiters   []Waiter // the places that could be read
	Damaged   error    // what could not be read, if anything; all else was
}

// Inspect runs inspect.lua: one request, which writes nothing. It shows at most count waiters, from
// index from on.
func (s *Server) Inspect(ctx context.Context, keys Keys, from, count int) (State, error) {
	reply, err := s.run(ctx, inspectScript, append(inspectScript.on(keys.all(), 2), from, count))
	if err != nil {
		return State{}, err
	}
	return decodeState(reply)
}

func decodeState(reply []any) (State, error) {
	r := reader{list: reply}
	state := State{Now: Micros(r.int())}
	last := r.string()
	record := r.strings()
	state.Remaining, state.Waiting = r.millis(), int(r.int())
	line := r.strings()
	r.wrong = r.wrong || len(record)%2 != 0
	if r.wrong {
		return State{}, WrongReply("inspect", reply)
	}
	if last != "0" {
		state.damage("the token key", state.tokenKey(last))
	}
	for i := 0; i < len(record); i += 2 {
		state.damage("the record's "+strconv.Quote(cut(record[i])), state.field(record[i], record[i+1]))
	}
	if state.Held && state.HeldToken == 0 {
		state.damage("the record", errors.New("it has no token"))
	}
	state.Page = len(line)
	for _, element := range line {
		state.damage("the line", state.stand(element))
	}
	return decoded(state, &r, "inspect", reply)
}

// damage notes the first thing that makes no sense.
func (s *State) damage(where string, err error) {
	if err != nil && s.Damaged == nil {
		s.Damaged = fmt.Errorf("%s: %w", where, err)
	}
}

// cut is the start of a text, short enough to be read.
func cut(text string) string { return text[:min(len(text), 100)] }

func (s *State) tokenKey(value string) (err error) {
	s.Token, err = positive(value)
	return err
}

// stand takes one element of the line.
func (s *State) stand(element string) error {
	place, text, _ := strings.Cut(element, ":")
	at, err := positive(place)
	if err != nil {
		return err
	}
	ticket, err := ParseTicket(text)
	if err != nil {
		return err
	}
	s.Waiters = append(s.Waiters, Waiter{ticket, Place(at), element})
	return nil
}

// field takes one field of the record.
func (s *State) field(name, value string) (err error) {
	s.Held = true
	switch {
	case name == "owner":
		s.Owner = ownerName(value)
	case name == "token":
		s.HeldToken, err = heldToken(value)
	case name == "since":
		var ms int64
		ms, err = positive(value)
		s.Since = microsFromMillis(min(ms, maxTime))
	case strings.Contains(name, ":"):
		return s.hold(name, value)
	}
	return err
}

// heldToken reads the token of a record as force.lua does, so that a force names what it finds.
func heldToken(value string) (int64, error) {
	n, err := positive(value)
	if err == nil && (n > maxToken || value[0] == '+') {
		return 0, fmt.Errorf("%.100q is no token", value)
	}
	return n, err
}

func (s *State) hold(name, value string) error {
	deadline, rest, _ := strings.Cut(value, ":")
	depth, whose, _ := strings.Cut(rest, ":")
	ticket, err := ParseTicket(name)
	if err != nil {
		return err
	}
	ms, err := positive(deadline)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(depth)
	if err != nil {
		return fmt.Errorf("%.100q is no depth", depth)
	}
	hold := Hold{Ticket: ticket, Deadline: microsFromMillis(min(ms, maxTime)), Depth: n}
	if whose != "" {
		if hold.Turn, err = ParseTicket(whose); err != nil {
			return err
		}
	}
	s.Holds = append(s.Holds, hold)
	return nil
}

// Force runs force.lua: one request. It ends the ownership with this token (0: of a record that has
// none) and tells the clients that held the lock. It reports whether that ownership was the present
// one. More and Grant are as in [Left].
func (s *Server) Force(ctx context.Context, keys Keys, token int64) (forced bool, left Left, err error) {
	args := append(s.writing(forceScript, keys, 5), s.caller(keys)...)
	reply, err := s.run(ctx, forceScript, append(args, s.freed(keys), token))
	if err != nil {
		return false, Left{}, err
	}
	r := reader{list: reply}
	forced = r.int() == 1
	left, err = decoded(Left{More: r.int() == 1, Grant: r.grant()}, &r, "force", reply)
	return forced && err == nil, left, err
}

// Evict runs evict.lua: one request. It takes w out of the line and tells w's client. It reports
// whether w was in line.
func (s *Server) Evict(ctx context.Context, keys Keys, w Waiter) (bool, error) {
	args := append(s.writing(evictScript, keys, 4), s.caller(keys)...)
	element := cmp.Or(w.element, strconv.FormatInt(int64(w.Place), 10)+":"+w.Ticket.String())
	reply, err := s.run(ctx, evictScript, append(args, element))
	if err != nil {
		return false, err
	}
	r := reader{list: reply}
	return decoded(r.int() == 1, &r, "evict", reply)
}
