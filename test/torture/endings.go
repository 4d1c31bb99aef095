package torture

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
)

// prompt is how long after the end of trust a context may end, in a process that runs. A timer
// fires, one goroutine cancels the context, and another notes that. Each step may wait behind all
// others of a busy machine, and the process may be interrupted for up to noPulse each time without
// any sign.
const prompt = 4*noPulse + 100*time.Millisecond

// outlives returns by how much more than scheduling explains a call's contexts lived beyond end.
// The result is negative if scheduling explains all.
func (c *call) outlives(end int64) int64 {
	late := c.over - end - prompt.Nanoseconds()
	if late > 0 {
		late -= c.life.stood(end, c.over)
	}
	return late
}

// stood returns for how long a process stood still between two times.
func (l *life) stood(from, to int64) int64 {
	sum := int64(0)
	for _, s := range l.stills {
		sum += max(0, min(to, s.to)-max(from, s.from))
	}
	return sum
}

// merged is the same time without overlaps.
func merged(all []stretch) (merged []stretch) {
	slices.SortFunc(all, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
	for _, s := range all {
		if n := len(merged); n > 0 && s.from <= merged[n-1].to {
			merged[n-1].to = max(merged[n-1].to, s.to)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// closes is how a Locker was closed.
type closes struct {
	how string
	// When Close was called, when newcomers were certainly refused, when Close returned; 0: never.
	from, drains, to int64
}

func (l *life) closes(e event) {
	if l.lockers == nil {
		l.lockers = make(map[int]*closes)
	}
	switch e.Kind {
	case closing:
		l.lockers[e.Locker] = &closes{how: e.How, from: e.At}
	case drains:
		l.lockers[e.Locker].drains = e.At
	case closed:
		l.lockers[e.Locker].to = e.At
	default:
	}
}

// closed returns how the call's Locker was closed. The times are 0 if it never was.
func (c *call) closed() closes {
	if its := c.life.lockers[c.desk]; its != nil {
		return *its
	}
	return closes{}
}

// outlived lists contexts that ended after their lease could no longer be trusted, or never.
func outlived(leases []*call) []string {
	var wrong []string
	for _, c := range leases {
		end, why := c.believed(), "it could not be trusted any more"
		if at := c.closed().to; at != 0 && at < end {
			end, why = at, "its Locker was closed"
		}
		switch {
		case c.over == 0 && c.life.Killed == 0:
			wrong = append(wrong, fmt.Sprintf("%v: its context never ended", c))
		case c.over == 0 && c.given != 0 && c.life.Killed-end-c.life.stood(end, c.life.Killed) > prompt.Nanoseconds():
			wrong = append(wrong, fmt.Sprintf("%v: its context did not end in the %v before its death", c, time.Duration(c.life.Killed-end)))
		case c.over != 0 && c.outlives(end) > 0:
			wrong = append(wrong, fmt.Sprintf("%v: its context ended %v after %s", c, time.Duration(c.over-end).Round(time.Millisecond), why))
		}
	}
	return wrong
}

// afterClose lists calls that got a lock from a closed Locker, or from one that already refused
// newcomers.
func afterClose(calls []*call) []string {
	type ownership struct {
		life  *life
		desk  int
		lock  string
		token int64
	}
	first := make(map[ownership]int64) // when the first call of each Locker for it began
	for _, c := range calls {
		its := ownership{c.life, c.desk, c.lock, c.token}
		if began, ok := first[its]; !ok || c.began < began {
			first[its] = c.began
		}
	}
	var wrong []string
	for _, c := range calls {
		switch ends := c.closed(); {
		case c.token == 0 || c.how == nested:
		case ends.to != 0 && c.began > ends.to:
			wrong = append(wrong, fmt.Sprintf("%v: its Locker had been closed at %s", c, clock(ends.to)))
		case first[ownership{c.life, c.desk, c.lock, c.token}] < ends.drains: // it re-enters, as the named owner
		case ends.drains != 0 && c.began > ends.drains:
			wrong = append(wrong, fmt.Sprintf("%v: its Locker had let in nobody since %s", c, clock(ends.drains)))
		}
	}
	return wrong
}

// broken lists calls that a panic of somebody else's callback ended.
func broken(calls []*call) []string {
	var wrong []string
	for _, c := range calls {
		if c.broke != 0 && (c.antic == "" || c.token != 0) {
			wrong = append(wrong, fmt.Sprintf("%v was ended at %s by a callback that is none of its own", c, clock(c.broke)))
		}
	}
	return wrong
}

// lostForNothing lists leases that were lost although nothing kept their process from renewing
// them. Harm to another lock is no reason. Only the Unlock may notice the loss.
func lostForNothing(leases []*call, troubles []*trouble) []string {
	var wrong []string
	for _, c := range leases {
		gone := c.gone
		if gone == 0 && c.outcome == whyLost && c.sure {
			gone = c.released
		}
		from := gone - leaseOf(c.lock).Nanoseconds() - settling.Nanoseconds()
		disturbs := func(t *trouble) bool {
			return t.concerns(c.life) && !slices.Contains(aimed, t.Kind) && t.From <= gone && (t.To == 0 || t.To >= from)
		}
		if gone == 0 || c.fixed || c.closed().from != 0 || c.life.stood(from, gone) >= int64(leaseTime/5) || slices.ContainsFunc(troubles, disturbs) {
			continue
		}
		wrong = append(wrong, fmt.Sprintf("%v was lost at %s\n%s", c, clock(gone), c.life.around(troubles, from, gone)))
	}
	return wrong
}

// around tells what may explain a loss that seems to have no reason: which troubles of the process
// ended shortly before, when it stood still, and what it logged.
func (l *life) around(troubles []*trouble, from, to int64) string {
	var b strings.Builder
	for _, t := range troubles {
		if t.concerns(l) && t.From <= to && (t.To == 0 || t.To >= from-int64(l.leaving())) {
			fmt.Fprintf(&b, "\t\t%s from %s to %s\n", t.Kind, clock(t.From), clock(t.To))
		}
	}
	for _, s := range l.stills {
		if s.from <= to && s.to >= from {
			fmt.Fprintf(&b, "\t\tits process stood still from %s to %s\n", clock(s.from), clock(s.to))
		}
	}
	logs, err := os.ReadFile(l.journal + ".log")
	if err != nil {
		return b.String()
	}
	for line := range strings.Lines(string(logs)) {
		stamp, _, _ := strings.Cut(strings.TrimPrefix(line, slog.TimeKey+"="), " ")
		at, err := time.Parse(time.RFC3339, stamp)
		if err == nil && from <= at.UnixNano() && at.UnixNano() <= to+settling.Nanoseconds() {
			b.WriteString("\t\t" + line)
		}
	}
	return b.String()
}

// forNothing lists calls that failed before they stood in line although there was no trouble, for
// as long as requests to two dead connections take.
func forNothing(calls []*call, troubles []*trouble) []string {
	var wrong []string
	for _, c := range calls {
		from := c.began - int64(c.life.leaving())
		fails := c.token == 0 && c.ended != 0 && c.why != "" && !c.queued && !slices.Contains(reasons, c.why)
		fails = fails && c.why != whyEvicted && !strings.Contains(c.why, noMajority)
		calm := c.life.stood(from, c.ended) < int64(leaseTime/5) && c.life.undisturbed(troubles, from, c.ended) >= time.Duration(c.ended-from)
		if fails && calm && c.closed().from == 0 {
			wrong = append(wrong, fmt.Sprintf("%v, and there was no trouble", c))
		}
	}
	return wrong
}

// impatient lists calls that failed although they had a place in line.
func impatient(calls []*call) []string {
	var wrong []string
	for _, c := range calls {
		if c.queued && c.token == 0 && c.ended != 0 && !slices.Contains(reasons, c.why) {
			wrong = append(wrong, fmt.Sprintf("%v, although it waited in line", c))
		}
	}
	return wrong
}

// unrepeated lists Unlocks that failed by themselves before the lease had ended.
func unrepeated(leases []*call) []string {
	var wrong []string
	for _, c := range leases {
		if c.outcome != "" && !slices.Contains(reasons, c.outcome) && c.released < c.until && c.closed().from == 0 {
			wrong = append(wrong, fmt.Sprintf("%v: its Unlock failed at %s: %s", c, clock(c.released), c.outcome))
		}
	}
	return wrong
}
