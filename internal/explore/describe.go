package explore

import "fmt"

func ticketName(t int8) string { return fmt.Sprintf("%s%d", names[clientOf(t)], t%2+1) }

func describeProgram(p program) string { return fmt.Sprintf("%+v", p) }

func (v verb) String() string {
	return [...]string{"", "enter", "try", "leave", "renew", "reassert", "force"}[v]
}

func (r *request) String() string {
	text := r.verb.String()
	for _, a := range r.of[:r.n] {
		text += " " + ticketName(a.ticket)
		if a.place != 0 {
			text += fmt.Sprintf("@%d", a.place/step)
		}
		if a.retire {
			text += "(retired)"
		}
	}
	if r.verb == renew || r.verb == reassert {
		text += " " + ticketName(r.ticket)
	}
	if r.token != 0 {
		text += fmt.Sprintf(" token %d", r.token/step)
	}
	return text
}

// describe tells a move that is made in s, and what it came to.
func (x *explorer) describe(s *state, m move) string {
	before := *s
	text := [...]string{
		begins: "%s begins", beats: "%s enters again", renews: "%s renews", unlocks: "%s unlocks", cancels: "%s gives up",
		again: "%s leaves again", farewells: "%s leaves for certain", forces: "an administrator forces", arrives: "", returns: "", times: "",
		hears: "%s takes in a message", misses: "a message to %s is lost", doubles: "a message to %s is doubled", deafens: "%s loses its subscription",
		listens: "%s has its subscription back", crashes: "%s is killed", stops: "%s stands still", flushes: "all data is lost", passes: "",
	}[m.what]
	switch m.what {
	case begins, renews, unlocks, cancels, again, farewells:
		text = fmt.Sprintf(text, ticketName(m.who))
	case beats, misses, doubles, deafens, listens, crashes, stops:
		text = fmt.Sprintf(text, names[m.who])
	case hears:
		msg := s.clients[m.who].inbox[0]
		text = fmt.Sprintf("%s hears %c %s token %d", names[m.who], msg.verb, ticketName(msg.ticket), msg.token/step)
	case arrives:
		text = fmt.Sprintf("executed at last: %s", &s.flights[m.who].req)
	case returns:
		text = fmt.Sprintf("answered at last: %s", &s.flights[m.who].req)
	case times:
		text = fmt.Sprintf("given up: %s", &s.flights[m.who].req)
	case passes:
		text = fmt.Sprintf("%d ms pass", m.by)
	default:
	}
	text += [...]string{"", ", delayed", ", and does not hear the answer", ", unanswered; it may come late", ", and once more later"}[m.mode]
	fault := x.fault
	x.apply(&before, m)
	x.fault = fault
	before.normalise()
	return text + x.describeState(&before)
}

func (x *explorer) describeState(s *state) string {
	text := "\n      "
	k := &s.srv
	switch {
	case k.owner == nobody:
		text += "free"
	case k.owner == placeholder:
		text += fmt.Sprintf("placeholder %d", k.token/step)
	default:
		text += fmt.Sprintf("token %d", k.token/step)
		for i, end := range k.holds {
			if end != absent {
				text += fmt.Sprintf(" %s:%d", ticketName(int8(i)), end)
			}
		}
	}
	text += " line ["
	for i, e := range k.queue[:k.length] {
		if i > 0 {
			text += " "
		}
		text += ticketName(e.ticket)
	}
	text += "]"
	for i := range int8(tickets) {
		if s.trusts(i) {
			text += fmt.Sprintf(" %s trusts for %d", ticketName(i), s.attempt(i).trusted)
		}
	}
	return text
}
