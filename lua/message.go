package lua

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Message is what a script tells a client on its channel.
type Message struct {
	News   News
	Ticket Ticket
	Record string        // the key of the lock's record
	Token  int64         // of a grant, or of what was forced
	At     Micros        // of a grant: when it was written
	Claim  time.Duration // of a grant: how long it lasts from At, unless confirmed
	Run    string        // of a grant: see [Counters]
}

// News is what a message tells of its ticket.
type News string

// What a script may tell of a ticket.
const (
	Grants  News = "grant"   // it has the lock
	Forces  News = "forced"  // an administrator ended its ownership
	Evicts  News = "evicted" // an administrator took it out of the line
	Recalls News = "hint"    // it should enter again: it was passed over, or the lock may be free sooner
)

// ParseMessage decodes one of
//
//	grant <at> <claim> <token> <ticket> <record>
//	run <at> <claim> <token> <counters> <ticket> <record>
//	forced <token> <ticket> <record>
//	evicted <ticket> <record>
//	hint <ticket> <record>
func ParseMessage(text string) (m Message, err error) {
	verb, rest, _ := strings.Cut(text, " ")
	numbers, known := map[string]int{"grant": 3, "run": 4, "forced": 1, "evicted": 0, "hint": 0}[verb]
	field := strings.SplitN(rest, " ", numbers+2)
	if !known || len(field) != numbers+2 || field[numbers+1] == "" {
		return Message{}, fmt.Errorf("message %.200q: unknown verb or length", text)
	}
	if verb == "run" { // a grant with counters
		if m.Run = field[3]; Counters(m.Run) == nil {
			return Message{}, fmt.Errorf("message %.200q: no run", text)
		}
		verb, numbers, field = "grant", 3, slices.Delete(field, 3, 4)
	}
	n := make([]int64, numbers)
	for i := range n {
		if n[i], err = positive(field[i]); err != nil {
			return Message{}, fmt.Errorf("message %.200q: %w", text, err)
		}
	}
	if m.Ticket, err = ParseTicket(field[numbers]); err != nil {
		return Message{}, fmt.Errorf("message %.200q: %w", text, err)
	}
	m.News, m.Record = News(verb), field[numbers+1]
	if numbers > 0 {
		m.Token = n[numbers-1]
	}
	if m.News == Grants {
		if n[1] > millis(Claim) {
			return Message{}, fmt.Errorf("message %.200q: no claim is that long", text)
		}
		m.At, m.Claim = Micros(n[0]), fromMillis(n[1])
	}
	return m, nil
}

// Counters returns the counters of a grant's run: of the tickets of the same client that are next
// in line, in order. They are written with commas between them. It returns nil for any other text,
// also for the empty one: a grant without a run.
func Counters(run string) (all []uint64) {
	if run == "" {
		return nil
	}
	for text := range strings.SplitSeq(run, ",") {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || len(all) == MaxRun {
			return nil
		}
		all = append(all, n)
	}
	return all
}

// positive parses a number that Redis' Lua can hold exactly.
func positive(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || n >= 1<<53 {
		return 0, fmt.Errorf("%.100q is no number from 1 to 2^53 - 1", text)
	}
	return n, nil
}
