package rules

import (
	"time"

	"github.com/fairlock/locks/lua"
)

// Concerns reports whether a message or a grant is about the ticket, for the lock of the record. It
// names namedRecord and named. A script tells of whatever stands in a line, with the rights of the
// client that releases: rights to the keys of one lock must give no other lock away.
func Concerns(namedRecord string, named lua.Ticket, record string, ticket lua.Ticket) bool {
	return namedRecord == record && named == ticket
}

// Heard takes in a message to the ticket. session is the subscription's when the message came.
func (w *Waiter) Heard(m *lua.Message, received time.Time, session uint64, open bool) Step {
	switch {
	case m.News == lua.Forces:
		// The answer that grants this token may be on its way.
		w.Forced, w.Shown = max(w.Forced, m.Token), max(w.Shown, m.Token)
	case m.News == lua.Recalls && w.Phase == Waiting:
		w.OnServer = true
		return Step{Do: Ask}
	case m.News == lua.Evicts && w.Phase == Waiting:
		return w.end(Evicted, open)
	case m.News != lua.Grants:
	case w.Phase == Gone:
		w.Phase = Leaving
		return Step{Do: LeaveLine} // the server gave it the lock although it has left
	case w.Phase == Waiting && m.Token > w.Shown:
		w.OnServer = true
		return w.grantHeard(m, received, session)
	}
	return Step{} // doubled, or older than an answer that knew better; or its leave is on its way
}

// grantHeard believes a grant, or has the server asked.
func (w *Waiter) grantHeard(m *lua.Message, received time.Time, session uint64) Step {
	expires, ok := w.believe(m, received, session)
	term := Term{m.Claim, expires}
	if ok && !Passed(term.TrustEnds(), received) {
		w.Phase = Granted
		return Step{Do: Take, Term: term}
	}
	if ok {
		// The trust in this claim had ended when the message came. A ticket to which that happens
		// twice goes to the end: it must not keep the head from those who listen.
		if w.Late++; w.Late >= 2 {
			w.Late, w.Place = 0, 0
		}
	}
	return Step{Do: Ask}
}

// believe works out, by the client's clock, when the claim in a message ends at the server. It is
// not ok if the server has to be asked instead: also if the outcome depends on how far the clocks
// have run apart. believe compares the server's clock only with itself.
func (w *Waiter) believe(m *lua.Message, received time.Time, session uint64) (expires time.Time, ok bool) {
	s := w.Last
	if s.At == 0 {
		// Nothing was answered yet. The claim cannot have begun before the first request was sent.
		return w.Began.Add(m.Claim), true
	}
	since := m.At.Sub(s.At)
	if s.Session != session || since < 0 || since > received.Sub(s.Sent) {
		return time.Time{}, false // another server may speak, or its clock stepped
	}
	unsure := since / 10 // as far as the clocks may have run apart since then
	expires = s.Sent.Add(since - unsure + m.Claim)
	over := received.Add(Margin(m.Claim))
	return expires, expires.After(over) || !expires.Add(unsure).After(over)
}
