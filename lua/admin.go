package lua

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Hold is one hold of a record.
type Hold struct {
	Ticket   Ticket
	Deadline Micros
	Depth    int
}

// Waiter is one place in line.
type Waiter struct {
	Ticket Ticket
	Place  Place
}

// State is what Inspect saw.
type State struct {
	Now       Micros
	Token     int64 // the largest given
	Held      bool
	Owner     string // empty over a placeholder: the server has forgotten who
	HeldToken int64
	Since     Micros
	Remaining time.Duration
	Holds     []Hold
	Waiting   int      // length of the line
	Waiters   []Waiter // the page that was asked for
}

// Inspect runs inspect.lua: one request, which writes nothing. It shows at most count waiters from index from on.
func (s *Server) Inspect(ctx context.Context, keys Keys, from, count int) (State, error) {
	reply, err := s.run(ctx, inspectScript, append(inspectScript.on(keys.all(), 2), from, count))
	if err != nil {
		return State{}, err
	}
	return decodeState(reply)
}

func decodeState(reply []any) (State, error) {
	r := reader{list: reply}
	state := State{Now: Micros(r.int()), Token: r.int()}
	record := r.strings()
	state.Remaining, state.Waiting = r.millis(), int(r.int())
	for _, element := range r.strings() {
		place, text, _ := strings.Cut(element, ":")
		at, err := positive(place)
		if err != nil {
			return State{}, wrongReply("inspect", element)
		}
		ticket, err := ParseTicket(text)
		if err != nil {
			return State{}, err
		}
		state.Waiters = append(state.Waiters, Waiter{ticket, Place(at)})
	}
	for i := 0; i+1 < len(record); i += 2 {
		if err := state.field(record[i], record[i+1]); err != nil {
			return State{}, err
		}
	}
	r.wrong = r.wrong || len(record)%2 != 0
	return decoded(state, &r, "inspect", reply)
}

// field takes one field of the record.
func (s *State) field(name, value string) (err error) {
	s.Held = true
	switch {
	case name == "owner":
		s.Owner = ownerName(value)
	case name == "token":
		s.HeldToken, err = positive(value)
	case name == "since":
		var ms int64
		ms, err = positive(value)
		s.Since = microsFromMillis(ms)
	case strings.Contains(name, ":"):
		deadline, depth, _ := strings.Cut(value, ":")
		var h Hold
		var ms int64
		if h.Ticket, err = ParseTicket(name); err == nil {
			ms, err = positive(deadline)
		}
		if err == nil {
			h.Deadline = microsFromMillis(ms)
			h.Depth, err = strconv.Atoi(depth)
		}
		s.Holds = append(s.Holds, h)
	}
	return err
}

// Force runs force.lua: one request. It ends the ownership that has this token and tells its clients; it reports
// whether that was the present one. More and Grant are as in [Left].
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

// Evict runs evict.lua: one request. It takes w out of the line and tells its client; it reports whether it was there.
func (s *Server) Evict(ctx context.Context, keys Keys, w Waiter) (bool, error) {
	args := append(s.writing(evictScript, keys, 4), s.caller(keys)...)
	reply, err := s.run(ctx, evictScript, append(args, strconv.FormatInt(int64(w.Place), 10)+":"+w.Ticket.String()))
	if err != nil {
		return false, err
	}
	r := reader{list: reply}
	return decoded(r.int() == 1, &r, "evict", reply)
}
