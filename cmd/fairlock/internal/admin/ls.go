// Package admin has the commands for those who look after locks: to list and show locks, to force
// the end of a hold, and to evict a waiter from a line.
package admin

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
)

// Ls is "fairlock ls".
type Ls struct {
	locks.Reading
	output.Flags
	Sort    string `enum:"waiting,held,remaining,name" default:"waiting" help:"What comes first: most waiting, longest held, least remaining, or by name (default ${default})."`
	Pattern string `arg:"" optional:"" complete:"lock" help:"Only locks whose name is like this: * is any text, ? any character, [a-z] one of these."`
}

// Help is the long text of "fairlock ls --help".
func (*Ls) Help() string {
	return `Lists the locks that are held or waited for, fair and plain, the most troubled first: by how many wait, then by how
long it is held. A pattern is quoted, so that the shell leaves it alone.

  fairlock ls 'order:*'
  fairlock ls --json | jq -r 'select(.waiting > 10) | .name'

REMAINING is when the lock is free if nobody renews it: a live holder renews every third of its lease, or every 50 s
if that is sooner. Who waits for a plain lock is known to its own process only. A large database takes a while: all its
keys are gone through.

It changes no lock. Like every first call it may write PREFIX:protocol, if it has the right to.

With --redisson it lists the locks of Java's Redisson: hashes that look like one, and lines. They do not tell since when
they are held.

--json: a line for each lock, with name, kind, token, holder (null, or owner, note, token, holds,
depth, since, held_ms, remaining_ms), waiting and damaged (what in its keys makes no sense, if
anything does). A name, owner or note that is not UTF-8 is there in base64, too, as name_base64,
owner_base64 or note_base64. Of a quorum a holder is undecided, with token 0, while no node knows that it is decided.

Exit codes:
    0  also if there are none
   64  the command line makes no sense
   69  the server cannot be reached or used
   74  standard output cannot be written`
}

// Run is called by kong.
func (v *Ls) Run() error {
	if _, err := path.Match(v.Pattern, ""); err != nil {
		return exit.Errorf(exit.Usage, "%q: %w", v.Pattern, err)
	}
	found, err := v.find()
	if err != nil {
		return err
	}
	p := v.Page()
	lines := output.Table{Bends: 2}
	lines.Add("NAME", "KIND", "HOLDER", "HELD", "REMAINING", "WAITING")
	for _, r := range found {
		lines.Add(cells(r, p.Colour)...)
		p.Object(r)
	}
	if len(found) > 0 {
		p.Table(lines)
	} else {
		p.Say("%s", p.Dim("no locks"))
	}
	return p.Print()
}

// find returns the locks that match, in their order.
func (v *Ls) find() (found []*locks.Record, err error) {
	kinds, err := v.Kinds()
	if err != nil {
		return nil, err
	}
	s, err := v.Open(kinds...)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for _, l := range s.Lockers {
		for state, err := range l.List(context.Background()) {
			if err != nil {
				return nil, l.Failed(err)
			}
			if matches(v.Pattern, state.Name) {
				state.Waiters, state.Nodes = nil, nil // List may have only the first waiter; show prints all
				found = append(found, locks.NewRecord(l.Kind, state))
			}
		}
	}
	slices.SortFunc(found, v.order)
	return found, nil
}

// matches reports whether a name matches the pattern. A slash in a name is a character like any
// other, but path.Match would treat it as a border.
func matches(pattern, name string) bool {
	noSlash := strings.NewReplacer("/", "\x00")
	ok, err := path.Match(noSlash.Replace(pattern), noSlash.Replace(name))
	return pattern == "" || ok && err == nil
}

// order compares two locks as --sort says, and equal ones by what else is of interest.
func (v *Ls) order(a, b *locks.Record) int {
	waiting, held := cmp.Compare(b.Waiting, a.Waiting), a.OlderThan(b)
	name := cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	switch v.Sort {
	case "held":
		return cmp.Or(held, waiting, name)
	case "remaining":
		return cmp.Or(cmp.Compare(a.Remaining(), b.Remaining()), waiting, held, name)
	case "name":
		return name
	default:
		return cmp.Or(waiting, held, name)
	}
}

// cells returns the cells of a lock in the table of ls.
func cells(r *locks.Record, c output.Colour) []string {
	held, remaining, waiting := "-", "-", "-"
	if h := r.Holder; h != nil {
		held, remaining = output.Span(h.Held), output.Span(h.Remaining)
		if h.Since.IsZero() {
			held = "-"
		}
	}
	if r.Kind != locks.Plain {
		waiting = fmt.Sprint(r.Waiting)
	}
	if r.Waiting > 0 {
		waiting = c.Paint(output.Yellow, waiting)
	}
	holder := r.Holder.Who()
	if r.Damaged != "" {
		holder += " " + c.Paint(output.Red, "(damaged)")
	}
	return []string{c.Paint(output.Bold, output.Clean(r.Name)), r.Kind, holder, held, remaining, waiting}
}
