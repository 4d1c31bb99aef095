package explore

// truth is what happened, as far as the invariants ask. It is written down from what was executed,
// not from what the server or a client made of it.
type truth struct {
	most    int32          // the largest token given
	inLine  [tickets]bool  // the ticket was told to wait, and nothing has ended that
	place   [tickets]int32 // the ticket's place in line
	back    [tickets]bool  // the ticket was passed over, and came back during the run of another client
	entered [tickets]ms    // when the ticket's last enter was executed
	blind   [clients]ms    // until then the client counts as reachable without a subscription
	passed  [clients]bool  // a ticket of the client was passed over, and the client has not come back
	left    [tickets]bool  // a leave of the ticket was executed, or a force of its hold
	clean   [tickets]bool  // a leave of the ticket ended a hold
	forced  [tickets]int32 // the token that force ended
	flushed bool           // data was lost
	// The ticket held when data was lost, and no request that knows of the hold was executed since.
	unknown [tickets]bool
	orphan  [tickets]bool // a newcomer got the lock while the holder was unknown
	// The client could not know of the ticket's last request, could not send another one, or let
	// its hold run out.
	silent [tickets]bool
}

// move copies what o knows of its ticket i to ticket n of t.
func (t *truth) move(n int8, o *truth, i int8) {
	t.inLine[n], t.place[n], t.entered[n], t.left[n] = o.inLine[i], o.place[i], o.entered[i], o.left[i]
	t.back[n] = o.back[i]
	t.clean[n], t.forced[n], t.unknown[n], t.orphan[n], t.silent[n] = o.clean[i], o.forced[i], o.unknown[i], o.orphan[i], o.silent[i]
}

// executed notes a request and its reply. It runs before the judges look at what the request did to
// others.
func (t *truth) executed(before, after *keys, r *request, rep *reply) {
	// A renewal only touches the record's key, and force ends what is there: neither brings
	// knowledge back.
	knows := max(r.knew, r.token) >= t.most && t.most != 0 && r.verb != renew && r.verb != force
	for i := range t.unknown {
		t.unknown[i] = t.unknown[i] && !knows
	}
	switch r.verb {
	case enter:
		t.enters(after, r, rep)
	case leave:
		for i, a := range r.of[:r.n] {
			t.inLine[a.ticket], t.left[a.ticket] = false, true
			t.clean[a.ticket] = t.clean[a.ticket] || before.holds[a.ticket] >= 0 || rep.of[i].status == heldBy
		}
	case force:
		for i, end := range before.holds {
			if rep.done && end != absent {
				t.forced[i], t.left[i], t.inLine[i] = before.token, true, false
			}
		}
	default:
	}
}

func (t *truth) enters(after *keys, r *request, rep *reply) {
	for i, a := range r.of[:r.n] {
		if a.place != 0 && !r.some {
			t.passed[r.client] = false
		}
		if rep.of[i].status == waits {
			t.back[a.ticket] = t.back[a.ticket] || !t.inLine[a.ticket] && a.place != 0
			t.inLine[a.ticket], t.entered[a.ticket], t.place[a.ticket] = true, 0, rep.of[i].place
		}
	}
	// An enter makes its client blind, or heard, whatever becomes of its tickets. That is so even
	// if the process that sent the enter is gone.
	t.blind[r.client] = 0
	if !after.heard[r.client] {
		t.blind[r.client] = claim
	}
}

// orphans notes that a newcomer has the lock. If no client that knows the holder comes first, a
// newcomer gets the lock (docs/safety.md, When the server loses data), or shares it with others of
// its owner.
func (t *truth) orphans(to int8) {
	for i := range int8(tickets) {
		if t.unknown[i] && i != to {
			t.orphan[i], t.unknown[i] = true, false
		}
	}
}

// haunts notes a request whose outcome its client will never hear. After a loss of data nothing
// stops such a request: the marks of the tickets that have left are lost too.
func (s *state) haunts(r *request) {
	for t := range int8(tickets) {
		s.truth.silent[t] = s.truth.silent[t] || s.truth.flushed && (r.about(t) || r.opens(t))
	}
}

// lose is the loss of all data.
func (s *state) lose() {
	t := &s.truth
	for i := range int8(tickets) {
		a := s.attempt(i)
		t.unknown[i] = s.srv.holds[i] > 0 || a.phase == held
		t.inLine[i] = false
		// The force is forgotten too: the holder may assert itself again if it has not heard.
		t.orphan[i] = t.orphan[i] || t.forced[i] != 0
		t.forced[i] = 0
		t.left[i] = false // the mark of a retired ticket was lost too: its late request may be executed
	}
	t.passed, t.blind = [clients]bool{}, [clients]ms{}
	t.flushed = true
	heard := s.srv.heard
	s.srv = noKeys()
	s.srv.heard = heard
}
