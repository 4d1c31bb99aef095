package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
)

// showVerb is "fairlock show".
type showVerb struct {
	selection
	output
	All  bool   `help:"Show the whole line, however long (default: its first ${most}). JSON has it always."`
	Name string `arg:"" complete:"lock" help:"The lock's name."`
}

// mostShown is how many waiters people are shown unless they want all.
const mostShown = 20

// Help is the long text of "fairlock show --help".
func (*showVerb) Help() string {
	return `Shows who has a lock, since when and for how long yet, and who waits for it, next first: place, waiting time and the
id that evict takes. If there is a fair and a plain lock of the name, both are shown. Times are the server's.

--json: a line for each lock, as of ls, and of a fair one the waiters too, with place, id, owner, note, since and
waited_ms.

Exit codes:
    0  it is held or waited for
    1  nobody holds it and nobody waits for it
   64  the command line makes no sense
   69  the server cannot be reached or used
   74  standard output cannot be written`
}

// Run is called by kong.
func (v *showVerb) Run() error {
	s, err := v.open(v.kinds()...)
	if err != nil {
		return err
	}
	defer s.close()
	var all []*lockRecord
	for _, l := range s.kinds {
		r, err := l.inspect(v.Name)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	busy := slices.DeleteFunc(slices.Clone(all), (*lockRecord).idle)
	p := v.page()
	for i, r := range busy {
		if i > 0 {
			p.say("")
		}
		p.lock(r, v.All)
	}
	if len(busy) > 0 {
		return p.print()
	}
	p.object(all[0])
	p.say("%s: nobody holds it and nobody waits for it", p.paint(bold, clean(v.Name)))
	if err := p.print(); err != nil {
		return err
	}
	return &exit.Error{Code: exit.Nothing}
}

// lock shows everything that is known of one.
func (p *page) lock(r *lockRecord, all bool) {
	p.object(r)
	p.say("%s  %s", p.paint(bold, clean(r.Name)), p.dim(r.Kind+" lock"))
	if h := r.Holder; h == nil {
		p.say("  free")
	} else {
		p.say("  held by    %s", h.who())
		p.say("  owner      %s", clean(h.Owner))
		p.say("  token      %d", h.Token)
		p.say("  held for   %s, since %s", span(h.Held), at(h.Since))
		p.say("  remaining  %s if nobody renews it", span(h.Remaining))
		p.say("  depth      %d, in %s", h.Depth, count(h.Holds, "hold"))
	}
	if r.Damaged != "" {
		p.say("  %s    %s", p.paint(red, "damaged"), clean(r.Damaged))
	}
	if r.Kind == plainKind {
		return
	}
	p.say("  waiting    %d", r.Waiting)
	if len(r.Waiters) == 0 {
		return
	}
	p.say("")
	shown := r.Waiters
	if !all {
		shown = shown[:min(len(shown), mostShown)]
	}
	lines := table{bends: 2}
	lines.add("PLACE", "WAITED", "WHO", "ID")
	for _, w := range shown {
		lines.add(strconv.Itoa(w.Place), span(w.Waited), w.who(), clean(w.ID))
	}
	p.table(lines)
	if more := len(r.Waiters) - len(shown); more > 0 {
		p.say("%s", p.dim(fmt.Sprintf("and %s more (--all shows them), the last has waited for %s", thousands(more), span(r.Waiters[len(r.Waiters)-1].Waited))))
	}
}

// count is a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return thousands(n) + " " + thing + "s"
}
