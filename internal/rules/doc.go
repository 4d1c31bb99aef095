// Package rules is what a client does with a ticket, as values: events in, steps out.
package rules
