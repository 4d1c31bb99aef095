package lua

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Longest texts of a ticket, in bytes before escaping.
const (
	MaxOwner = 256
	MaxNote  = 256
)

// Ticket is one attempt to acquire one lock. It is never used twice. [NewTicket] and [ParseTicket]
// make one; the zero Ticket is none.
type Ticket struct {
	Client  string        // the Locker's id
	Counter uint64        // unique within the client
	Lease   time.Duration // what it asks for, in whole milliseconds
	Owner   string        // explicit owner; empty: the ticket owns by itself
	Note    string        // shown by inspection

	text string // its form on the wire
}

// NewTicket is a ticket with these fields, the lease in whole milliseconds. Its text is made here,
// once; [ParseTicket] makes an equal ticket of that text.
func NewTicket(client string, counter uint64, lease time.Duration, owner, note string) Ticket {
	t := Ticket{Client: client, Counter: counter, Lease: fromMillis(millis(lease)), Owner: owner, Note: note}
	t.text = t.print()
	return t
}

// String is the ticket's form on the wire: client:counter:lease:owner:note.
func (t Ticket) String() string { return t.text }

func (t Ticket) print() string {
	var room [128]byte
	text := append(append(room[:0], t.Client...), ':')
	text = append(strconv.AppendUint(text, t.Counter, 10), ':')
	text = append(strconv.AppendInt(text, millis(t.Lease), 10), ':')
	text = append(append(text, escape(t.Owner)...), ':')
	return string(append(text, escape(t.Note)...))
}

// Identity names the owner: the explicit one, or the client and counter.
func (t Ticket) Identity() string {
	if t.Owner != "" {
		return t.Owner
	}
	return t.ID()
}

// ID names the ticket: no other has it.
func (t Ticket) ID() string {
	if t.text == "" {
		return ""
	}
	counter, _, _ := strings.Cut(t.text[len(t.Client)+1:], ":")
	return t.text[:len(t.Client)+1+len(counter)]
}

// Claim is how long a grant of this ticket lasts before it is confirmed.
func (t Ticket) Claim() time.Duration { return min(Claim, t.Lease) }

// ParseTicket is the inverse of [Ticket.String].
func ParseTicket(text string) (Ticket, error) {
	part := strings.Split(text, ":")
	if len(part) != 5 || part[0] == "" || !isPlain(text) || len(text) > 64+64+3*(MaxOwner+MaxNote) {
		return Ticket{}, fmt.Errorf("not a ticket: %.100q", text)
	}
	counter, err1 := strconv.ParseUint(part[1], 10, 64)
	lease, err2 := strconv.ParseInt(part[2], 10, 64)
	owner, err3 := url.QueryUnescape(part[3])
	note, err4 := url.QueryUnescape(part[4])
	if lease <= 0 || lease > maxLease {
		err2 = errors.Join(err2, fmt.Errorf("a lease of %d ms", lease))
	}
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return Ticket{}, fmt.Errorf("not a ticket: %.100q: %w", text, err)
	}
	return Ticket{part[0], counter, fromMillis(lease), owner, note, text}, nil
}

// isPlain reports whether a text is one word of printable ASCII, as all tickets are: the client's
// id, at least, is shown as it stands.
func isPlain(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// asks are the lease (ms) and the owner of the ticket in the words of the scripts.
func (t Ticket) asks() (lease, owner string) {
	id := t.ID()
	lease, rest, _ := strings.Cut(t.text[len(id)+1:], ":")
	if owner, _, _ = strings.Cut(rest, ":"); owner == "" {
		owner = id
	}
	return lease, owner
}

// escape leaves no colon and no space, which separate fields of tickets and messages.
func escape(text string) string {
	if text == "" {
		return ""
	}
	return url.QueryEscape(text)
}

// ownerName is what a record's owner field says in plain words.
func ownerName(field string) string {
	if strings.Contains(field, ":") {
		return field // client:counter; an escaped explicit owner has no colon
	}
	if name, err := url.QueryUnescape(field); err == nil {
		return name
	}
	return field
}
