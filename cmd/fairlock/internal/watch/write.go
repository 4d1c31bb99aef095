package watch

import (
	"fmt"
	"io"
	"strings"

	"github.com/fairlock/locks/cmd/fairlock/internal/look"
)

// many is how many waiters may come, or go, at one time and get a line each. If there are more, one
// line stands for all.
const many = 8

// WriteJSON writes each event as an object on a line.
func WriteJSON(out io.Writer, events []Event) error {
	for _, e := range events {
		e.At = e.At.UTC()
		if err := look.JSON(out, wire{
			Event: e, Waited: e.Waited.Milliseconds(), Held: e.Held.Milliseconds(), Remaining: e.Remaining.Milliseconds(),
			Lock64: look.Base64(e.Lock), Owner64: look.Base64(e.Owner), Note64: look.Base64(e.Note),
		}); err != nil {
			return err
		}
	}
	return nil
}

// WriteText writes events for people. paint colours the word that says what happened. Of a plain
// lock nothing is said of a line: who waits for it is known to its own process only.
func WriteText(out io.Writer, events []Event, plain bool, paint func(Kind, string) string) error {
	count := make(map[Kind]int)
	for _, e := range events {
		count[e.Kind]++
	}
	var text strings.Builder
	told := make(map[Kind]bool)
	for _, e := range events {
		parts := e.words()
		if n := count[e.Kind]; n > many && (e.Kind == Came || e.Kind == Left || e.Kind == Gone) {
			if told[e.Kind] {
				continue
			}
			told[e.Kind] = true
			parts = []string{look.Count(n) + " waiters"}
		}
		if !plain {
			parts = append(parts, e.rest())
		}
		fmt.Fprintf(&text, "%s  %s  %s\n", e.At.Format("15:04:05.000"), paint(e.Kind, fmt.Sprintf("%-9s", e.Kind)), strings.Join(parts, "   "))
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// words returns what there is to say of one event, except the line.
func (e Event) words() []string {
	who := look.Who(e.Note, e.Owner)
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	switch {
	case e.Kind == Damaged:
		return []string{look.Plain(e.Note)}
	case e.Kind == Unseen:
		add("somebody had it between two looks")
	case e.Kind == Forgotten && e.Owner == "":
		add("the server lost data, and waits for who had it")
	case e.Kind == Forgotten:
		add("the server lost data; %s had it", who)
	case e.Kind == Standing && e.Token == 0:
		add("nobody has it")
	case e.Kind == Standing && e.Owner == "":
		add("the server lost data, and waits for who had it")
	case e.Kind == Standing:
		add("%s has it", who)
	default:
		add("%s", who)
	}
	if e.Token > 0 {
		add("token %d", e.Token)
	}
	if e.Position > 0 {
		add("at %s", look.Count(e.Position))
	}
	if e.Waited > 0 && e.Kind != Came {
		add("waited %s", look.Span(e.Waited))
	}
	if e.Held > 0 {
		add("held %s", look.Span(e.Held))
	}
	if e.Remaining > 0 && e.Kind != Granted {
		add("lease ends in %s", look.Span(e.Remaining))
	}
	return all
}

func (e Event) rest() string { return look.Count(e.Waiting) + " waiting" }
