package torture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// line is one lock, as the journal shows it.
type line struct {
	name    string
	queue   []place
	given   map[place]bool   // places that their tickets were given
	last    int64            // the largest place given
	token   int64            // the largest token given
	record  string           // the ticket that holds the lock; "": it is free
	free    int64            // since when the lock is free with a waiter in line; 0: it is not
	gathers int64            // until then the lock is given to nobody, so that all waiters can come back
	out     map[string]int64 // tickets that were passed over or lost -> when
	waited  []place          // who was in line when the lock became free
	popped  []place          // taken out of the line by the present transaction
	marked  map[string]bool  // clients with a waiter that was passed over
	retired map[string]bool  // tickets that left while a request of theirs was open
	handed  map[string]int64 // tickets that got the lock from the line, and hold it -> when they got it
	since   map[string]int64 // tickets that are in line or hold the lock -> when they were first seen
}

type place struct {
	at     int64
	ticket string
	again  bool // its client was out of reach before
}

// queue notes a change of the line.
func (o *order) queue(l *line, words []string) {
	switch verb := strings.ToUpper(words[0]); verb {
	case "RPUSH":
		for _, element := range words[2:] { // those that join in one request
			l.queue = append(l.queue, o.arrives(l, element))
		}
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
		if len(words) > 2 { // they had turns on a hold that ends with this
			n, _ := strconv.Atoi(words[2])
			l.queue = l.queue[min(n, len(l.queue)):]
			return
		}
		first := l.queue[0]
		first.again = l.marked[client(first.ticket)]
		l.popped = append(l.popped, first)
		l.queue = l.queue[1:]
	case "LSET": // the script sets elements to "", and then removes them together
		if at, err := strconv.Atoi(words[2]); err == nil && at < len(l.queue) {
			l.queue[at] = place{}
		}
	case "LREM":
		if words[3] == "" {
			l.queue = slices.DeleteFunc(l.queue, func(p place) bool { return p.ticket == "" })
		} else if at := l.find(words[3]); at >= 0 {
			l.queue = slices.Delete(l.queue, at, at+1)
		}
	case "DEL", "UNLINK":
		l.queue = nil
	}
}

// find returns the position of an element in line, or -1.
func (l *line) find(element string) int {
	at, ticket, _ := strings.Cut(element, ":")
	return slices.IndexFunc(l.queue, func(p place) bool { return p.ticket == ticket && strconv.FormatInt(p.at, 10) == at })
}

// arrives takes in a place:ticket. A place that its ticket did not have before is larger than all
// before. A ticket may have had two: it was passed over before it knew the first, and asked anew.
func (o *order) arrives(l *line, element string) place {
	text, ticket, _ := strings.Cut(element, ":")
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil || !l.given[place{at: at, ticket: ticket}] && at <= l.last {
		o.inversions = append(o.inversions, fmt.Sprintf("lock %s: %s arrived after place %d was given", l.name, element, l.last))
	}
	l.last = max(l.last, at)
	l.given[place{at: at, ticket: ticket}] = true
	if since, was := l.out[ticket]; was {
		o.within(&o.out, ticket, since, l.name)
		delete(l.out, ticket)
	}
	return place{at: at, ticket: ticket}
}

// marks notes the marks in the set of waiters.
func (l *line) marks(words []string) {
	switch strings.ToUpper(words[0]) {
	case "ZADD":
		for pair := range slices.Chunk(words[2:], 2) {
			mark := pair[len(pair)-1]
			switch {
			case mark == "?":
				until, _ := strconv.ParseInt(pair[0], 10, 64)
				l.gathers = -until * 1e6
			case mark[0] == '?':
				l.marked[mark[1:]] = true
			case mark[0] == '!':
				l.retired[mark[1:]] = true
			}
		}
	case "ZREM":
		for _, mark := range words[2:] {
			if mark[0] == '?' {
				delete(l.marked, mark[1:])
			}
		}
	case "DEL", "UNLINK":
		clear(l.marked)
	}
}

// alone reports whether a ticket names no owner, so that no other ticket shares its hold.
func alone(ticket string) bool {
	part := strings.SplitN(ticket, ":", 5)
	return len(part) == 5 && part[3] == ""
}

// record notes a change of who holds the lock.
func (o *order) record(l *line, words []string) {
	switch strings.ToUpper(words[0]) {
	case "DEL", "UNLINK":
		l.record = ""
	case "HDEL": // a hand-over writes the next record over what is left of this one
		if slices.Contains(words[2:], l.record) && alone(l.record) {
			l.record = ""
		}
	case "HSET":
		var ticket string
		var token int64
		for pair := range slices.Chunk(words[2:], 2) {
			switch {
			case pair[0] == "token":
				token, _ = strconv.ParseInt(pair[1], 10, 64) // no token is 0
			case strings.Contains(pair[0], ":"):
				ticket = pair[0]
			case pair[0] == "kept":
				l.record = "kept" // for a holder that the server has forgotten
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
