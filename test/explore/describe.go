package explore

import (
	"fmt"
	"strconv"
	"strings"
)

func ticketName(t int8) string { return fmt.Sprintf("%c%d", names[clientOf(t)][0], t%2+1) }

func describeProgram(p program) string { return fmt.Sprintf("%+v", p) }

func (v verb) String() string {
	return [...]string{"", "enter", "try", "leave", "renew", "reassert", "force"}[v]
}

func (r *request) String() string {
	var text strings.Builder
	text.WriteString(r.verb.String())
	if r.some {
		text.WriteString(" some")
	}
	for _, a := range r.of[:r.n] {
		text.WriteString(" " + ticketName(a.ticket))
		if a.place != 0 {
			text.WriteString("@" + shown(a.place))
		}
		if a.retire {
			text.WriteString(" (retired)")
		}
	}
	if r.verb == renew || r.verb == reassert {
		text.WriteString(" " + ticketName(r.ticket))
	}
	if r.token != 0 {
		text.WriteString(" token " + shown(r.token))
	}
	return text.String()
}

// shown shows a token or a place by its rank. A number that was just given has no rank yet.
func shown(v int32) string {
	if v >= fresh {
		return "new"
	}
	return strconv.Itoa(int(v / step))
}

func (w what) String() string {
	return [...]string{
		begins: "%s begins", together: "both of %s begin", beats: "%s enters again", asks: "%s enters again with its first", renews: "%s renews", unlocks: "%s unlocks", goesOn: "the turn of %s passes on", cancels: "%s gives up",
		again: "%s leaves again", adopts: "%s has its Lease", closes: "%s is closed", ends: "%s ends its subscription", tires: "%s leaves no more",
		forges: "a grant to %s of another lock is told", forces: "an administrator forces", arrives: "executed at last: %s", returns: "answered at last: %s", times: "given up: %s",
		hears: "%s takes in a message", misses: "a message to %s is lost", doubles: "a message to %s is doubled", deafens: "%s loses its subscription",
		listens: "%s has its subscription back", crashes: "%s is killed", stops: "%s stands still", flushes: "all data is lost", elapses: "%d ms pass",
	}[w]
}

func (m mode) String() string {
	return [...]string{"", ", delayed", ", and does not hear the answer", ", unanswered; it may come late", ", which never arrives", ", and once more later"}[m]
}

// describe tells a move from s, and the outcome.
func (x *explorer) describe(s *state, m move) string {
	before := *s
	text := m.what.String()
	switch m.what {
	case begins, renews, unlocks, goesOn, cancels, again, adopts, tires, forges:
		text = fmt.Sprintf(text, ticketName(m.who))
	case together, beats, asks, misses, doubles, deafens, listens, closes, ends, crashes, stops:
		text = fmt.Sprintf(text, names[m.who])
	case hears:
		msg := s.clients[m.who].inbox[0]
		text = fmt.Sprintf("%s hears %s %s token %s", names[m.who], messages[msg.verb], ticketName(msg.ticket), shown(msg.token))
	case arrives, returns, times:
		text = fmt.Sprintf(text, &s.flights[m.who].req)
	case elapses:
		text = fmt.Sprintf(text, m.by)
	default:
	}
	text += m.mode.String()
	fault := x.fault
	x.apply(&before, m)
	x.fault = fault
	before.normalise()
	return text + x.describeState(&before)
}

var messages = map[byte]string{'g': "the grant to", 'f': "that force ended", 'h': "a hint to"}

func (x *explorer) describeState(s *state) string {
	var text strings.Builder
	k := &s.srv
	switch k.owner {
	case nobody:
		text.WriteString("\n      free")
	case placeholder:
		text.WriteString("\n      placeholder " + shown(k.token))
	default:
		text.WriteString("\n      token " + shown(k.token))
		for i, end := range k.holds {
			if end != absent {
				fmt.Fprintf(&text, " %s:%d", ticketName(int8(i)), end)
			}
		}
	}
	text.WriteString(" line [")
	for i, e := range k.queue[:k.length] {
		if i > 0 {
			text.WriteString(" ")
		}
		text.WriteString(ticketName(e.ticket))
	}
	text.WriteString("]")
	for i := range int8(tickets) {
		if s.trusts(i) {
			fmt.Fprintf(&text, " %s trusts for %d", ticketName(i), from(s.holdOf(i).TrustEnds))
		}
	}
	return text.String()
}
