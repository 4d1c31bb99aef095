package rules

// Requests is whether the server might yet execute a request of a ticket: one that is under way,
// or one whose answer was lost. Such a ticket is retired when it leaves, or a late request would
// put it back into line with nobody behind it.
type Requests struct {
	InFlight int32 // requests that went out to which nothing has come back yet
	Lost     bool  // some answer was
	Executed bool  // the one request that went out is known to have been executed
}

// Sent notes a request that goes out. Answered must follow.
func (r *Requests) Sent() { r.InFlight++ }

// Answered notes how a request ended: lost if it may yet be executed.
func (r *Requests) Answered(lost bool) {
	r.Lost = r.Lost || lost
	r.InFlight--
}

// Overtaken notes that a ticket of which nothing was answered yet has the lock, as a message told:
// if one request is all that went out, that was executed. Its answer is noted with
// [Requests.EnterAnswered], and none like it may be sent any more.
func (r *Requests) Overtaken() {
	if !r.Lost && r.InFlight == 1 {
		r.InFlight, r.Executed = 0, true
	}
}

// EnterAnswered is Answered for a request that Overtaken may have been about.
func (r *Requests) EnterAnswered(lost bool) {
	if r.Executed {
		r.Executed = false
		return
	}
	r.Answered(lost)
}

// Open reports whether a request may still be executed.
func (r *Requests) Open() bool { return r.InFlight > 0 || r.Lost }
