package torture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// order is the judge that follows the server's own journal: every write, in the order of execution.
// A lock must go to the first ticket in line. A ticket that is taken out of the line without a
// grant must have been out of reach at that time, by the saboteur's notes. From then until the
// ticket is back in its place, others may overtake it. After a loss of data all tickets are out of
// line until they are back.
type order struct {
	lives    map[string]*life
	calls    map[string]*call // by the notes of their tickets
	troubles []*trouble
	lines    map[string]*line // by lock
	now      int64            // the server's clock, as far as the journal shows it
	pending  [][]string       // of an unfinished transaction
	doubts   []doubt          // waiters that were passed over since then

	disturbances map[*life][]stretch // see disturbed

	grants     int
	queued     int                  // of these, grants to a ticket in line
	over       int                  // waiters that were passed over
	latest     int64                // the longest time after a trouble at which a waiter was passed over
	inversions []string             // grants out of turn, and waiters passed over without a reason
	disorder   []string             // tokens not larger than those before, and records written over others
	idle       stretch              // the longest time in which a lock was free although a waiter was within reach
	out        stretch              // the longest time in which a waiter within reach was not back in line
	ghosts     []string             // tickets that stayed in line or held a lock for long after their calls
	left       int                  // tickets that stayed after their calls at all
	longest    stretch              // the longest such stay
	unheard    []string             // grants of which their calls did not hear for long
	frees      map[string][]stretch // when a plain lock was free, by name
}

// doubt is a waiter that was passed over, at some time between from and the next known time.
type doubt struct {
	lock, ticket string
	from         int64
}

func newOrder(lives map[string]*life, calls []*call, troubles []*trouble) *order {
	return &order{
		frees: make(map[string][]stretch), lives: lives, calls: byNote(calls),
		troubles: troubles, lines: make(map[string]*line), disturbances: make(map[*life][]stretch),
	}
}

// show reads one command.
func (o *order) show(words []string) {
	switch verb := strings.ToUpper(words[0]); {
	case verb == "MULTI":
		o.pending = [][]string{}
	case verb == "EXEC":
		all := o.pending
		o.pending = nil
		o.transaction(all)
	case o.pending != nil:
		o.pending = append(o.pending, words)
	default:
		o.transaction([][]string{words})
	}
}

// lost notes that the server's data is gone.
func (o *order) lost(at int64) {
	o.is(at)
	o.pending = nil // nobody was told of what was cut off with the journal
	for _, l := range o.lines {
		for _, w := range l.queue {
			l.out[w.ticket] = at
		}
		for ticket, since := range l.since {
			o.haunted(l, ticket, since)
		}
		clear(l.since)
		clear(l.handed)
		l.queue, l.record, l.free, l.gathers = nil, "", 0, 0
		clear(l.marked)
		clear(l.retired)
	}
}

// transaction reads what one script wrote, or a single command.
func (o *order) transaction(all [][]string) {
	for _, words := range all {
		o.tell(words)
	}
	touched := make(map[*line]bool)
	for _, words := range all {
		if len(words) < 2 {
			continue
		}
		lock := lockOf(words[1])
		if isPlain(lock) && words[1] == record(lock) {
			o.plain(lock, words)
		}
		part := strings.SplitN(words[1], ":", 3)
		if len(part) != 3 || part[0] != "fairlock" || isPlain(lock) || strings.HasPrefix(lock, prey) {
			continue
		}
		l := o.line(lock)
		touched[l] = true
		switch part[1] {
		case "queue":
			o.queue(l, words)
		case "waiters":
			l.marks(words)
		case "lock":
			o.record(l, words)
		}
	}
	for l := range touched {
		o.settle(l)
	}
}

// tell learns the server's time from a command that mentions it.
func (o *order) tell(words []string) {
	switch verb := strings.ToUpper(words[0]); {
	case verb == "PEXPIREAT" && strings.HasPrefix(words[1], "fairlock:waiters:"):
		if at, err := strconv.ParseInt(words[2], 10, 64); err == nil {
			o.is((at - 60_000) * 1e6)
		}
	case verb == "HSET" && words[2] == "owner" && len(words) > 7:
		if at, err := strconv.ParseInt(words[7], 10, 64); err == nil {
			o.is(max(o.now, at*1e6)) // a hold that is written again keeps its first time
		}
	}
}

// is sets the time, and with that settles the doubts: either there was a reason to pass a waiter
// over, or there was none.
func (o *order) is(now int64) {
	for _, d := range o.doubts {
		after, away := int64(0), false
		if l := o.life(d.ticket); l != nil {
			after, away = l.unreachable(o.troubles, d.from, now)
		}
		if c := o.calls[note(d.ticket)]; c != nil && c.gave(now) {
			after, away = 0, true // the call no longer waits, though its ticket may not have left yet
		}
		if !away {
			o.inversions = append(o.inversions, fmt.Sprintf("lock %s: %s was passed over between %s and %s without a reason",
				d.lock, d.ticket, clock(d.from), clock(now)))
		}
		o.latest = max(o.latest, after)
	}
	o.now, o.doubts = now, nil
}

func (o *order) line(name string) *line {
	l := o.lines[name]
	if l == nil {
		l = &line{
			name: name, given: make(map[place]bool), out: make(map[string]int64),
			marked: make(map[string]bool), retired: make(map[string]bool), handed: make(map[string]int64), since: make(map[string]int64),
		}
		o.lines[name] = l
	}
	return l
}

// granted notes that a ticket was given the lock.
func (o *order) granted(l *line, ticket string, token int64) {
	o.grants++
	if token <= l.token {
		o.disorder = append(o.disorder, fmt.Sprintf("lock %s: %s has token %d after %d", l.name, ticket, token, l.token))
	}
	l.token = max(l.token, token)
	if l.record != "" {
		o.disorder = append(o.disorder, fmt.Sprintf("lock %s: %s was granted while %s had it", l.name, ticket, l.record))
	}
	if o.now < l.gathers {
		o.inversions = append(o.inversions, fmt.Sprintf("lock %s: %s was granted at %s although all had until %s to come back",
			l.name, ticket, clock(o.now), clock(l.gathers)))
	}
	delete(l.out, ticket)
	at := slices.IndexFunc(l.popped, func(p place) bool { return p.ticket == ticket })
	for _, other := range l.queue {
		if at < 0 || other.at < l.popped[at].at {
			o.inversions = append(o.inversions, fmt.Sprintf("lock %s: %s was granted before %s at place %d", l.name, ticket, other.ticket, other.at))
			break
		}
	}
	if at >= 0 {
		o.queued++
		l.handed[ticket] = o.now
		l.popped = slices.Delete(l.popped, at, at+1)
	}
}

// settle ends a transaction. A ticket that was taken out of the line and did not get the lock was
// passed over.
func (o *order) settle(l *line) {
	for _, p := range l.popped {
		if l.retired[p.ticket] { // the ticket left by itself
			continue
		}
		o.over++
		l.out[p.ticket] = o.now
		if !p.again {
			o.doubts = append(o.doubts, doubt{l.name, p.ticket, o.now})
		}
	}
	l.popped = nil
	o.haunt(l)
	switch {
	case l.record != "" || len(l.queue) == 0:
		o.stood(l)
		l.free = 0
	case l.free == 0:
		l.free = o.now
		l.waited = slices.Clone(l.queue)
	}
}

// stood notes that a lock was free until now. The tickets that waited all that time waited in vain.
func (o *order) stood(l *line) {
	from := max(l.free, l.gathers)
	if l.free == 0 || from >= o.now {
		return
	}
	for _, w := range l.waited {
		if w.ticket == l.record || slices.ContainsFunc(l.queue, func(p place) bool { return p.ticket == w.ticket }) {
			o.within(&o.idle, w.ticket, from, l.name)
		}
	}
}

// end notes the time at which the last process was gone.
func (o *order) end(at int64) {
	o.is(at)
	for _, l := range o.lines {
		o.stood(l)
		for ticket, since := range l.since {
			o.haunted(l, ticket, since)
		}
	}
}

// waiting lists the tickets that are in line at the end although their process was not killed.
func (o *order) waiting() []string {
	var wrong []string
	for _, l := range o.lines {
		for _, w := range l.queue {
			if its := o.life(w.ticket); (its == nil || its.Killed == 0) && o.owes(w.ticket) {
				wrong = append(wrong, fmt.Sprintf("lock %s: %s is still in line", l.name, w.ticket))
			}
		}
	}
	return wrong
}

// stands lists the waits that were longer than the protocol promises.
func (o *order) stands() []string {
	var wrong []string
	if o.idle.length() > standing {
		wrong = append(wrong, fmt.Sprintf("free from %s to %s, and in line was %s", clock(o.idle.from), clock(o.idle.to), o.idle.what))
	}
	if o.out.length() > standing {
		wrong = append(wrong, fmt.Sprintf("out of line from %s to %s was %s", clock(o.out.from), clock(o.out.to), o.out.what))
	}
	return wrong
}

// note returns the last part of a ticket: the process's name, and the call's number there.
func note(ticket string) string { return ticket[strings.LastIndexByte(ticket, ':')+1:] }

// client returns the first part of a ticket.
func client(ticket string) string {
	before, _, _ := strings.Cut(ticket, ":")
	return before
}
