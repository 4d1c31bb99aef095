package stage

import "strings"

// ClientOf returns the client of a ticket.
func ClientOf(ticket string) string {
	client, _, _ := strings.Cut(ticket, ":")
	return client
}

// CallOf returns the call of a ticket: its client and its number there.
func CallOf(ticket string) string {
	client, rest, _ := strings.Cut(ticket, ":")
	counter, _, _ := strings.Cut(rest, ":")
	return client + ":" + counter
}

// NoteOf returns the note of a ticket.
func NoteOf(ticket string) string { return ticket[strings.LastIndexByte(ticket, ':')+1:] }
