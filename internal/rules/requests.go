package rules

// Requests is whether the server might yet execute a request of a ticket: one that is under way,
// or one whose answer was lost. Such a ticket is retired when it leaves, or a late request would
// put it back into line with nobody behind it.
type Requests struct {
	underway int32
	lost     bool
	executed bool // the request in flight is known to have been executed
}

// Sent notes a request that goes out. Answered must follow.
func (r *Requests) Sent() { r.underway++ }

// Answered notes how a request ended: lost if it may yet be executed.
func (r *Requests) Answered(lost bool) {
	r.lost = r.lost || lost
	r.underway--
}

// Executed notes that a ticket of which nothing was answered yet has the lock: if one request is
// all that went out, that was executed. The request's end is noted with [Requests.EnterAnswered],
// and none like it may be sent any more.
func (r *Requests) Executed() {
	if !r.lost && r.underway == 1 {
		r.underway, r.executed = 0, true
	}
}

// EnterAnswered is Answered for a request that Executed may have been about.
func (r *Requests) EnterAnswered(lost bool) {
	if r.executed {
		r.executed = false
		return
	}
	r.Answered(lost)
}

// Underway reports whether a request went out to which nothing has come back yet.
func (r *Requests) Underway() bool { return r.underway > 0 }

// Open reports whether a request may still be executed.
func (r *Requests) Open() bool { return r.underway > 0 || r.lost }
