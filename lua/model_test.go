package lua

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// model does slowly and plainly what the scripts should do. It has the waiters in the order of
// their places.
type model struct {
	line   []*modelTicket
	holder *modelTicket
	blind  map[*party]bool
	deaf   map[*party]bool
	passed map[*party]bool // a ticket of the client was passed over, and the client has not entered since
}

type modelTicket struct {
	p       *party
	ticket  string
	place   Place
	overdue bool
}

// insert puts w in line at its place.
func (m *model) insert(w *modelTicket) {
	w.overdue = false
	i := len(m.line)
	for i > 0 && m.line[i-1].place > w.place {
		i--
	}
	m.line = slices.Insert(m.line, i, w)
}

// advance gives the free lock to the first living waiter; me is the client that asks.
func (m *model) advance(me *party) {
	unheard := map[*party]bool{}
	for m.holder == nil && len(m.line) > 0 {
		first := m.line[0]
		m.line = m.line[1:]
		if first.overdue {
			continue
		}
		if first.p == me || !m.passed[first.p] && (!m.deaf[first.p] || m.blind[first.p]) {
			m.holder = first
		} else {
			unheard[first.p] = true
		}
	}
	if len(m.line) > 0 {
		maps.Copy(m.passed, unheard)
	}
}

// enters does to w what an enter to wait, or a try, does; with returning, w comes back with its
// place.
func (m *model) enters(w *modelTicket, try, returning bool) Status {
	listed := slices.Contains(m.line, w)
	switch {
	case m.holder == w:
	case m.holder == nil && len(m.line) == 0:
		m.holder = w
	case try:
	case listed:
		w.overdue = false
	default:
		m.insert(w)
	}
	if returning {
		m.passed[w.p] = false
	}
	m.advance(w.p)
	if try && m.holder == nil {
		m.holder = w
	}
	if !try && len(m.line) > 0 {
		m.blind[w.p] = m.deaf[w.p]
	}
	if m.holder == w {
		return Granted
	}
	return map[bool]Status{true: Taken, false: Waiting}[try]
}

func (m *model) leaves(w *modelTicket) Was {
	was := Neither
	if m.holder == w {
		m.holder, was = nil, Held
	} else if i := slices.Index(m.line, w); i >= 0 {
		m.line, was = slices.Delete(m.line, i, i+1), Waited
	}
	m.advance(w.p)
	return was
}

// Random programs of four clients do the same on the server as in the model.
func TestRandomProgramsDoWhatTheModelDoes(t *testing.T) {
	for seed := range uint64(18) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			at := onMiniredis
			if seed%3 == 0 {
				at = onRedis
			}
			runProgram(t, at(t), seed, 60)
		})
	}
}

func runProgram(t *testing.T, s *site, seed uint64, steps int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7)) // the same in every run
	m := &model{blind: map[*party]bool{}, deaf: map[*party]bool{}, passed: map[*party]bool{}}
	var parties []*party
	for _, id := range []string{"a", "b", "c", "d"} {
		parties = append(parties, s.party(id))
	}
	var all []*modelTicket // those that have not left
	var trace []string
	pick := func() *modelTicket {
		if len(all) == 0 || rng.IntN(3) == 0 {
			p := parties[rng.IntN(len(parties))]
			all = append(all, &modelTicket{p: p, ticket: p.ticket(time.Minute)})
			return all[len(all)-1]
		}
		return all[rng.IntN(len(all))]
	}
	for range steps {
		s.pass(0)
		w, p := pick(), parties[rng.IntN(len(parties))]
		var got, want any
		var what string
		switch n := rng.IntN(12); {
		case n < 5 || w.place == 0 && n < 8:
			what = "enters"
			returning := w.place > 0
			state, answer := w.p.enter(w.ticket, w.place)
			if !returning {
				w.place = max(state.Place, answer.Now)
			}
			got, want = state.Status, m.enters(w, false, returning)
		case n < 6:
			what, w = "tries", &modelTicket{p: p, ticket: p.ticket(time.Minute)}
			state, answer := p.try(w.ticket)
			got, want, w.place = state.Status, m.enters(w, true, false), answer.Now
			all = append(all, w)
		case n < 8 && m.holder != nil:
			what, w = "releases", m.holder
			got, want = w.p.leave(LeaveTicket{Ticket: parsed(w.ticket), Place: w.place}).Were[0], m.leaves(w)
		case n < 9:
			what = "leaves"
			got, want = w.p.leave(LeaveTicket{Ticket: parsed(w.ticket), Place: w.place}).Were[0], m.leaves(w)
		case n < 10 && slices.Contains(m.line, w):
			what, w.overdue = "is overdue", true
			s.age(w.ticket)
		case m.deaf[p]:
			what, m.deaf[p] = "hears again: "+p.id, false
			p.listen()
		default:
			what, m.deaf[p] = "is deaf: "+p.id, true
			p.die()
		}
		if what == "releases" || what == "leaves" {
			all = slices.DeleteFunc(all, func(v *modelTicket) bool { return v == w })
		}
		trace = append(trace, fmt.Sprintf("%s %s: %s", w.ticket, what, got))
		if !m.agrees(s) || got != want {
			t.Fatalf("seed %d: %q\nanswered %s, want %s\nserver:\n%s\nmodel:\n%s", seed, trace, got, want, s.dump(), m)
		}
	}
}

func (m *model) String() (text string) {
	if m.holder != nil {
		text = "held by " + m.holder.ticket
	}
	for _, w := range m.line {
		text += fmt.Sprintf("\n%d:%s overdue %v deaf %v blind %v", w.place, w.ticket, w.overdue, m.deaf[w.p], m.blind[w.p])
	}
	return text
}

// agrees reports whether the server has the same holder and the same line as the model.
func (m *model) agrees(s *site) bool {
	s.t.Helper()
	line := s.line()
	for i, w := range m.line {
		if i >= len(line) || line[i] != w.ticket {
			return false
		}
	}
	record := s.rdb.HGetAll(ctx, s.keys.Record()).Val()
	if m.holder == nil {
		return len(line) == len(m.line) && len(record) == 0
	}
	return len(line) == len(m.line) && record[m.holder.ticket] != ""
}
