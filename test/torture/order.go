package torture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// order is the judge who follows the server's own journal: every write, in the order in which it
// was done. A lock must go to the first in line, and whoever is taken out of the line without it
// must have been out of reach at that time, by the saboteur's word. From then until it is back in
// its place it may be overtaken. When data is lost all are out until they are back.
type order struct {
	lives    map[string]*life
	calls    map[string]*call // by the note of their tickets
	troubles []*trouble
	lines    map[string]*line // by lock
	now      int64            // the server's clock, as far as it was told
	pending  [][]string       // of a transaction
	doubts   []doubt          // who was passed over since then

	grants     int
	queued     int                  // of them, to one in line
	over       int                  // waiters that were passed over
	latest     int64                // after a trouble somebody was
	inversions []string             // grants out of turn, and waiters passed over without a reason
	disorder   []string             // tokens that are not larger than those before, and records written over others
	idle       stretch              // the longest in which a lock was free although somebody in line was within reach
	out        stretch              // the longest in which somebody who was within reach was not back in line
	ghosts     []string             // tickets that stood in line or held a lock for long after their calls had ended
	left       int                  // tickets that did so at all
	longest    stretch              // of them
	unheard    []string             // grants of which their calls did not hear for long
	frees      map[string][]stretch // in which a plain lock was free, by name
}

// doubt is a waiter that was passed over, not before the time given and not after the next that is
// told.
type doubt struct {
	lock, ticket string
	from         int64
}

func newOrder(lives map[string]*life, calls []*call, troubles []*trouble) *order {
	o := &order{frees: make(map[string][]stretch), lives: lives, calls: make(map[string]*call), troubles: troubles, lines: make(map[string]*line)}
	for _, c := range calls {
		o.calls[fmt.Sprintf("%s-%d", c.life.Process, c.op)] = c
	}
	return o
}

// show takes in one command.
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

// lost is called when the server's data is gone.
func (o *order) lost(at int64) {
	o.is(at)
	o.pending = nil // what was cut off with the journal has been told to nobody
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

// transaction takes in what one script wrote, or one command.
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

// tell learns the server's time from what a command says of it.
func (o *order) tell(words []string) {
	switch verb := strings.ToUpper(words[0]); {
	case verb == "PEXPIREAT" && strings.HasPrefix(words[1], "fairlock:waiters:"):
		if at, err := strconv.ParseInt(words[2], 10, 64); err == nil {
			o.is((at - 60_000) * 1e6)
		}
	case verb == "HSET" && words[2] == "owner" && len(words) > 7:
		if at, err := strconv.ParseInt(words[7], 10, 64); err == nil {
			o.is(max(o.now, at*1e6)) // a hold that is written again says since when it was one
		}
	}
}

// is says what time it is, which ends doubts: there was a reason to pass somebody over, or there
// was none.
func (o *order) is(now int64) {
	for _, d := range o.doubts {
		after, away := int64(0), false
		if l := o.life(d.ticket); l != nil {
			after, away = l.unreachable(o.troubles, d.from, now)
		}
		if c := o.calls[note(d.ticket)]; c != nil && c.gave(now) {
			after, away = 0, true // it waits no more, though it may not have left yet
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

// granted takes in that a ticket was given the lock.
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
		o.inversions = append(o.inversions, fmt.Sprintf("lock %s: %s was granted at %s although all had until %s to come back", l.name, ticket, clock(o.now), clock(l.gathers)))
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

// settle ends a transaction: whoever was taken out of the line and did not get the lock was passed
// over.
func (o *order) settle(l *line) {
	for _, p := range l.popped {
		if l.retired[p.ticket] { // of its own accord
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

// stood takes in that a lock was free until now: in vain for those who waited all the time.
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

// end is the time at which the last process was gone.
func (o *order) end(at int64) {
	o.is(at)
	for _, l := range o.lines {
		o.stood(l)
		for ticket, since := range l.since {
			o.haunted(l, ticket, since)
		}
	}
}

// waiting are the tickets that are in line at the end although their process was not killed.
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

// stands says where somebody waited for longer than the protocol promises.
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

// note is the last part of a ticket: the process's name, and the call's number there.
func note(ticket string) string { return ticket[strings.LastIndexByte(ticket, ':')+1:] }

// client is the first part of a ticket.
func client(ticket string) string {
	before, _, _ := strings.Cut(ticket, ":")
	return before
}
