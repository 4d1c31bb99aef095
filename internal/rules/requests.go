package rules

// Requests knows whether the server might yet execute a request of a ticket: one that is under way,
// or one whose answer was lost. Such a ticket is retired when it leaves. Otherwise a late request
// would put the ticket back in line, where no call waits for it.
type Requests struct {
	InFlight int32 // requests that went out and have neither succeeded nor failed yet
	Lost     bool  // the answer to some request was lost
	Executed bool  // the one request that went out is known to have been executed
}

// Sent notes a request that goes out. Answered must follow.
func (r *Requests) Sent() { r.InFlight++ }

// Answered notes how a request ended. lost says that the request may yet be executed.
func (r *Requests) Answered(lost bool) {
	r.Lost = r.Lost || lost
	r.InFlight--
}

// Overtaken notes that a message brought the lock before any request of the ticket was answered. If
// only one request went out, the server has executed it. [Requests.EnterAnswered] notes the answer
// to that request, and no other enter may be sent any more.
func (r *Requests) Overtaken() {
	if !r.Lost && r.InFlight == 1 {
		r.InFlight, r.Executed = 0, true
	}
}

// EnterAnswered is Answered for an enter, which Overtaken may have been about.
func (r *Requests) EnterAnswered(lost bool) {
	if r.Executed {
		r.Executed = false
		return
	}
	r.Answered(lost)
}

// Open reports whether a request may still be executed.
func (r *Requests) Open() bool { return r.InFlight > 0 || r.Lost }
