package torture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// order is the judge who follows the server's own journal: every write, in the order in which it was done. A lock must go to
// the first in line, and whoever is taken out of the line without it must have been out of reach at that time, by the
// saboteur's word. From then until it is back in its place it may be overtaken. When data is lost all are out until they are back.
type order struct {
	lives    map[string]*life
	troubles []*trouble
	lines    map[string]*line // by lock
	now      int64            // the server's clock, as far as it was told
	pending  [][]string       // of a transaction
	doubts   []doubt          // who was passed over since then

	grants     int
	queued     int      // of them, to one in line
	over       int      // waiters that were passed over
	latest     int64    // after a trouble somebody was
	inversions []string // grants out of turn, and waiters passed over without a reason
	disorder   []string // tokens that are not larger than those before, and records written over others
	idle       stretch  // the longest in which a lock was free although somebody in line was within reach
	out        stretch  // the longest in which somebody who was within reach was not back in line
}

// stretch is a time in which something did not happen.
type stretch struct {
	from, to int64
	what     string
}

func (s stretch) length() time.Duration { return time.Duration(s.to - s.from) }

// doubt is a waiter that was passed over, not before the time given and not after the next that is told.
type doubt struct {
	lock, ticket string
	from         int64
}

// line is one lock, as the journal shows it.
type line struct {
	name    string
	queue   []place
	given   map[string]int64 // ticket -> its place
	last    int64            // the largest place given
	token   int64            // the largest token given
	record  string           // the ticket that holds the lock; "": it is free
	free    int64            // since when it is, with somebody in line; 0: it is not
	gathers int64            // until then all are given time to come back, and the lock to nobody
	out     map[string]int64 // tickets that were passed over or lost -> when
	waited  []place          // who was in line when it became free
	popped  []place          // taken out by the present transaction
	marked  map[string]bool  // clients of whom somebody was passed over
	retired map[string]bool  // tickets that left while a request of theirs was open
}

type place struct {
	at     int64
	ticket string
	again  bool // its client was out of reach before
}

func newOrder(lives map[string]*life, troubles []*trouble) *order {
	return &order{lives: lives, troubles: troubles, lines: make(map[string]*line)}
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
		part := strings.SplitN(words[1], ":", 3)
		if len(part) != 3 || part[0] != "fairlock" {
			continue
		}
		l := o.line(strings.Trim(part[2], "{}"))
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

// is says what time it is, which ends doubts: there was a reason to pass somebody over, or there was none.
func (o *order) is(now int64) {
	for _, d := range o.doubts {
		after, away := int64(0), false
		if l := o.life(d.ticket); l != nil {
			after, away = l.unreachable(o.troubles, d.from, now)
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
			name: name, given: make(map[string]int64), out: make(map[string]int64),
			marked: make(map[string]bool), retired: make(map[string]bool),
		}
		o.lines[name] = l
	}
	return l
}

// queue takes in a change of the line.
func (o *order) queue(l *line, words []string) {
	switch verb := strings.ToUpper(words[0]); verb {
	case "RPUSH":
		l.queue = append(l.queue, o.arrives(l, words[2]))
	case "LPUSH":
		l.queue = slices.Insert(l.queue, 0, o.arrives(l, words[2]))
	case "LINSERT":
		at := max(0, l.find(words[3]))
		l.queue = slices.Insert(l.queue, at, o.arrives(l, words[4]))
	case "LPOP":
		if len(l.queue) == 0 {
			o.inversions = append(o.inversions, "lock "+l.name+": somebody was taken out of an empty line")
			return
		}
		first := l.queue[0]
		first.again = l.marked[client(first.ticket)]
		l.popped = append(l.popped, first)
		l.queue = l.queue[1:]
	case "LREM":
		if at := l.find(words[3]); at >= 0 {
			l.queue = slices.Delete(l.queue, at, at+1)
		}
	case "DEL", "UNLINK":
		l.queue = nil
	}
}

// find returns where an element of the line is, or -1.
func (l *line) find(element string) int {
	at, ticket, _ := strings.Cut(element, ":")
	return slices.IndexFunc(l.queue, func(p place) bool { return p.ticket == ticket && strconv.FormatInt(p.at, 10) == at })
}

// arrives takes in a place:ticket. A place that its ticket did not have before is larger than all before.
func (o *order) arrives(l *line, element string) place {
	text, ticket, _ := strings.Cut(element, ":")
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil || at != l.given[ticket] && at <= l.last {
		o.inversions = append(o.inversions, fmt.Sprintf("lock %s: %s arrived after place %d was given", l.name, element, l.last))
	}
	l.last = max(l.last, at)
	l.given[ticket] = at
	if since, was := l.out[ticket]; was {
		o.within(&o.out, ticket, since, l.name)
		delete(l.out, ticket)
	}
	return place{at: at, ticket: ticket}
}

// marks takes in what the set of waiters says besides their deadlines.
func (l *line) marks(words []string) {
	switch strings.ToUpper(words[0]) {
	case "ZADD":
		for pair := range slices.Chunk(words[2:], 2) {
			switch mark := pair[len(pair)-1]; mark[0] {
			case '^':
				l.marked[mark[1:]] = true
			case '!':
				l.retired[mark[1:]] = true
			case '?':
				until, _ := strconv.ParseInt(pair[0], 10, 64)
				l.gathers = -until * 1e6
			}
		}
	case "ZREM":
		for _, mark := range words[2:] {
			if mark[0] == '^' {
				delete(l.marked, mark[1:])
			}
		}
	case "DEL", "UNLINK":
		clear(l.marked)
	}
}

// record takes in a change of who holds the lock.
func (o *order) record(l *line, words []string) {
	switch strings.ToUpper(words[0]) {
	case "DEL", "UNLINK":
		l.record = ""
	case "HSET":
		var ticket string
		var token int64
		for pair := range slices.Chunk(words[2:], 2) {
			switch {
			case pair[0] == "token":
				token, _ = strconv.ParseInt(pair[1], 10, 64) // 0 is no token of anybody
			case strings.Contains(pair[0], ":"):
				ticket = pair[0]
			case pair[0] == "?":
				l.record = "?" // kept for one whom the server has forgotten
			}
		}
		if words[2] == "owner" && ticket != "" {
			o.granted(l, ticket, token)
		}
		if ticket != "" {
			l.record = ticket
		}
	}
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
		l.popped = slices.Delete(l.popped, at, at+1)
	}
}

// settle ends a transaction: whoever was taken out of the line and did not get the lock was passed over.
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
	switch {
	case l.record != "" || len(l.queue) == 0:
		if from := max(l.free, l.gathers); l.free != 0 && from < o.now {
			for _, w := range l.waited {
				o.within(&o.idle, w.ticket, from, l.name)
			}
		}
		l.free = 0
	case l.free == 0:
		l.free = o.now
		l.waited = slices.Clone(l.queue)
	}
}

// within makes s the longest stretch from then until now in which the ticket's process was within reach.
func (o *order) within(s *stretch, ticket string, from int64, lock string) {
	l := o.life(ticket)
	if l == nil {
		return
	}
	to := o.now
	if l.Killed != 0 {
		to = min(to, l.Killed)
	}
	for _, t := range o.troubles { // in the order in which they began
		if !t.concerns(l) || t.To < from {
			continue
		}
		if undisturbed := min(t.From, to) - from; undisturbed > int64(s.length()) {
			*s = stretch{from, from + undisturbed, "lock " + lock + ": " + ticket}
		}
		from = max(from, t.To)
	}
	if to-from > int64(s.length()) {
		*s = stretch{from, to, "lock " + lock + ": " + ticket}
	}
}

// recovery is how long after a trouble somebody may still be out of reach: a connection is tried again at least once a
// second, and the machine has other things to do.
const recovery = 2500 * time.Millisecond

// life is the process of a ticket: its note.
func (o *order) life(ticket string) *life {
	return o.lives[ticket[strings.LastIndexByte(ticket, ':')+1:]]
}

// unreachable reports whether a process's own channel may have been without it at some time between the two: since a
// trouble that parts them, until some time after that and after every trouble by which it was kept from coming back. It says
// how long after. Troubles are in the order in which they began.
func (l *life) unreachable(troubles []*trouble, from, to int64) (after int64, away bool) {
	if l.Killed != 0 && to >= l.Killed {
		return 0, true
	}
	after = recovery.Nanoseconds()
	for _, t := range troubles {
		if !t.concerns(l) || !t.parts() || t.From > to {
			continue
		}
		end := t.To
		for _, other := range troubles {
			if other.concerns(l) && other.hinders() && other.From <= end+recovery.Nanoseconds() && other.From <= to && other.To >= t.From {
				end = max(end, other.To)
			}
		}
		if late := max(0, from-end); late <= after {
			after, away = late, true
		}
	}
	return after, away
}

func (t *trouble) concerns(l *life) bool { return t.Seat == everybody || t.Seat == l.Seat }

// parts reports whether a trouble can end a subscription. What harms scripts only does not, nor what is shorter than it takes
// for a silent connection to be given up.
func (t *trouble) parts() bool {
	return t.hinders() && !slices.Contains([]string{"DEBUG SLEEP", "CLIENT PAUSE ALL", "CLIENT KILL normal"}, t.Kind)
}

// hinders reports whether it can keep somebody from subscribing again.
func (t *trouble) hinders() bool {
	return !slices.Contains([]string{"delay", "drop", "hold back", "CLIENT PAUSE WRITE"}, t.Kind)
}

// waiting are the tickets that are in line at the end although their process was not killed.
func (o *order) waiting() []string {
	var wrong []string
	for _, l := range o.lines {
		for _, w := range l.queue {
			if its := o.life(w.ticket); its == nil || its.Killed == 0 {
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

// client is the first part of a ticket.
func client(ticket string) string {
	before, _, _ := strings.Cut(ticket, ":")
	return before
}
