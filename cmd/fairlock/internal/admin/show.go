package admin

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
)

// Show is "fairlock show".
type Show struct {
	locks.Reading
	output.Flags
	All  bool   `help:"Show the whole line, however long (default: its first ${most}). Of a quorum, its first 500. JSON has it always."`
	Name string `arg:"" complete:"lock" help:"The lock's name."`
}

// MostShown is how many waiters show prints for people without --all.
const MostShown = 20

// Help is the long text of "fairlock show --help".
func (*Show) Help() string {
	return `Shows who has a lock, since when and for how long yet, and who waits for it, next first: place, waiting time and the
id that evict takes. If there is a fair and a plain lock of the name, both are shown. Times are the server's.

Of a quorum it shows the lock as a majority of the nodes sees it, and then each node's own view: for whom its vote is,
whether it knows already that a majority is for the same (DECIDED), and the length of its line; or why it has no say. While the
nodes' votes are split nobody has the lock: those in line sort it out by themselves, within round trips. In the first
second of a hold no node knows that it is decided, and so not its token either: the token of one of the votes is the
hold's. A node that "grants nothing" for the whole longest lease may not know that yet: it begins with its first request.

With --redisson it shows a lock of Java's Redisson: its holder, its count, and for how long each waiter keeps its place.

--json: a line for each lock, as of ls, and of a fair one the waiters too, with place, id, owner,
note, since and waited_ms. Of a quorum also nodes, with node, error (why it says nothing), vote (null, or as holder),
decided, token, waiting and quarantine_ms (for how long it will grant nothing). A quorum tells of the first 500 in line
only; waiting counts all.

Exit codes:
    0  it is held or waited for
    1  nobody holds it and nobody waits for it
   64  the command line makes no sense
   69  the server cannot be reached or used
   74  standard output cannot be written`
}

// Run is called by kong.
func (v *Show) Run() error {
	kinds, err := v.Kinds()
	if err != nil {
		return err
	}
	s, err := v.Open(kinds...)
	if err != nil {
		return err
	}
	defer s.Close()
	var all []*locks.Record
	for _, l := range s.Lockers {
		r, err := l.Look(v.Name)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	busy := slices.DeleteFunc(slices.Clone(all), (*locks.Record).Idle)
	p := v.Page()
	for i, r := range busy {
		if i > 0 {
			p.Say("")
		}
		showLock(p, r, v.All)
	}
	if len(busy) > 0 {
		return p.Print()
	}
	p.Object(all[0])
	p.Say("%s: nobody holds it and nobody waits for it", p.Paint(output.Bold, output.Clean(v.Name)))
	if len(all[0].Nodes) > 0 {
		showNodes(p, all[0].Nodes)
	}
	if err := p.Print(); err != nil {
		return err
	}
	return &exit.Error{Code: exit.Nothing}
}

// showLock prints everything that is known of a lock.
func showLock(p *output.Page, r *locks.Record, all bool) {
	p.Object(r)
	p.Say("%s  %s", p.Paint(output.Bold, output.Clean(r.Name)), p.Dim(r.Kind+" lock"))
	if h := r.Holder; h == nil {
		p.Say("  free")
	} else {
		p.Say("  held by    %s", h.Who())
		p.Say("  owner      %s", output.Clean(h.Owner))
		if r.Kind != locks.Redisson {
			p.Say("  token      %s", h.TokenOrWhy())
			p.Say("  held for   %s, since %s", output.Span(h.Held), output.At(h.Since))
		}
		p.Say("  remaining  %s if nobody renews it", output.Span(h.Remaining))
		p.Say("  depth      %d, in %s", h.Depth, output.Count(h.Holds, "hold"))
	}
	if r.Damaged != "" {
		p.Say("  %s    %s", p.Paint(output.Red, "damaged"), output.Clean(r.Damaged))
	}
	if r.Kind == locks.Plain {
		return
	}
	p.Say("  waiting    %d", r.Waiting)
	showLine(p, r, all)
	if len(r.Nodes) > 0 {
		showNodes(p, r.Nodes)
	}
}

// showLine prints who waits.
func showLine(p *output.Page, r *locks.Record, all bool) {
	if len(r.Waiters) == 0 {
		return
	}
	p.Say("")
	shown := r.Waiters
	if !all {
		shown = shown[:min(len(shown), MostShown)]
	}
	lines := output.Table{Bends: 2}
	if r.Kind == locks.Redisson {
		lines.Add("PLACE", "WHO", "ITS PLACE")
		for _, w := range shown {
			lines.Add(strconv.Itoa(w.Place), output.Clean(w.Owner), output.Clean(w.Note))
		}
	} else {
		lines.Add("PLACE", "WAITED", "WHO", "ID")
		for _, w := range shown {
			lines.Add(strconv.Itoa(w.Place), output.Span(w.Waited), w.Who(), output.Clean(w.ID))
		}
	}
	p.Table(lines)
	if rest := theRest(r, len(shown)); rest != "" {
		p.Say("%s", p.Dim(rest))
	}
}

// theRest says who waits beside those shown, or nothing if that is nobody. A quorum tells only of
// the first in a long line.
func theRest(r *locks.Record, shown int) string {
	told, all := len(r.Waiters), len(r.Waiters)
	if r.Kind == locks.Quorum {
		all = max(all, r.Waiting)
	}
	switch more := look.Count(all - shown); {
	case shown == all:
		return ""
	case shown == told:
		return fmt.Sprintf("and %s more", more)
	case told < all:
		return fmt.Sprintf("and %s more (--all shows the first %s)", more, look.Count(told))
	case r.Kind == locks.Redisson:
		return fmt.Sprintf("and %s more (--all shows them)", more)
	default:
		return fmt.Sprintf("and %s more (--all shows them), the last has waited for %s", more, output.Span(r.Waiters[told-1].Waited))
	}
}

// showNodes prints what each node of a quorum says. Why one has no say is long and stands below the
// table, where nothing cuts it.
func showNodes(p *output.Page, nodes []locks.NodeRecord) {
	p.Say("")
	lines := output.Table{Bends: 1}
	lines.Add("NODE", "VOTE", "DECIDED", "REMAINING", "TOKEN", "WAITING")
	for _, n := range nodes {
		lines.Add(nodeCells(n, p.Colour)...)
	}
	p.Table(lines)
	for _, n := range nodes {
		at := output.Clean(n.Node)
		switch {
		case n.Error != "":
			p.Say("%s", p.Paint(output.Red, at+" has no say: "+output.Clean(n.Error)))
		case n.Vote == nil && n.Quarantine > 0:
			p.Say("%s", p.Paint(output.Yellow, at+" grants nothing for "+output.Span(n.Quarantine)))
		}
	}
}

// nodeCells are the cells of a node in the table of show.
func nodeCells(n locks.NodeRecord, c output.Colour) []string {
	at := output.Clean(n.Node)
	switch {
	case n.Error != "":
		return []string{at, c.Paint(output.Red, "no say"), "-", "-", "-", "-"}
	case n.Vote == nil && n.Quarantine > 0:
		return []string{at, c.Paint(output.Yellow, "none yet"), "-", "-", token(n.Token), strconv.Itoa(n.Waiting)}
	case n.Vote == nil:
		return []string{at, "-", "-", "-", token(n.Token), strconv.Itoa(n.Waiting)}
	}
	decided := "yes"
	if !n.Decided {
		decided = "not yet" // as far as the node knows: it hears of that with the first renewal
	}
	return []string{at, n.Vote.Who(), decided, output.Span(n.Vote.Remaining), token(n.Token), strconv.Itoa(n.Waiting)}
}

// token is a token for people.
func token(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}
