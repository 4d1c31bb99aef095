package torture

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// report is what came of it all.
type report struct {
	*arena
	saboteur *saboteur
	lines    [][2]string
	finished time.Duration // how long the longest call of a survivor took after the last trouble
}

// finish lets the workers end what they are at: all but one in good order, the last one killed in the middle of it.
func (r *report) finish() {
	r.t.Helper()
	calm := time.Now()
	last := r.seats[seats-1]
	for _, s := range r.seats {
		if s != last {
			s.worker.Dismiss()
		}
	}
	for _, s := range r.seats {
		if s != last {
			s.worker.Quit()
		}
	}
	r.finished = time.Since(calm)
	last.kill()
}

// add adds a line to the table.
func (r *report) add(name, format string, args ...any) {
	r.lines = append(r.lines, [2]string{name, fmt.Sprintf(format, args...)})
}

// must adds a line that must be 0.
func (r *report) must(name string, wrong []string) {
	r.t.Helper()
	r.add(name, "%d", len(wrong))
	if len(wrong) > 0 {
		r.t.Errorf("%s: %d, among them\n\t%s", name, len(wrong), strings.Join(wrong[:min(len(wrong), 10)], "\n\t"))
	}
}

// judge has all judges look at it.
func (r *report) judge() {
	r.t.Helper()
	gone := time.Now()
	left, err := remaining(context.Background(), r.admin)
	if err != nil {
		r.t.Fatal(err)
	}
	leaks, wait := leaked(left)
	h, err := readHistory(r.lives)
	if err != nil {
		r.t.Fatal(err)
	}
	r.count(h)
	leases := h.leases()
	wrong, allowed := overlaps(leases, r.losses)
	r.must("overlaps of trust", wrong)
	r.add("allowed by a loss", "%d", len(allowed))
	r.must("tokens out of order", disorder(leases))
	r.must("unclean unlocks", unclean(leases))
	began := time.Now()
	pieces, wrong := linearizable(h.calls, r.losses, time.Minute)
	r.must("not linearizable", wrong)
	r.add("pieces linearized", "%d in %v", pieces, time.Since(began).Round(time.Millisecond))
	_ = gone
	_ = wait
	r.must("leaks", leaks)
}

func (r *report) count(h *history) {
	kinds := make(map[string]int)
	for _, c := range h.calls {
		switch {
		case c.token != 0:
			kinds["lease"]++
			kinds[string(c.how)]++
		case c.ended == 0:
			kinds["open"]++
		case len(c.why) > 12:
			kinds["failed"]++
		default:
			kinds[c.why]++
		}
		if c.gone != 0 {
			kinds["lost"]++
		}
		if c.outcome != "" {
			kinds["unlock "+c.outcome[:min(len(c.outcome), 30)]]++
		}
	}
	var names []string
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		r.add(name, "%d", kinds[name])
	}
	sum, wrong := r.resource.totals()
	r.add("writes", "%d accepted, %d refused", sum.accepted, sum.refused)
	r.must("counters that are wrong", wrong)
	r.must("writes refused to a holder", h.wrong)
	r.add("again", "%d, passed over %d", h.again, h.over)
	r.add("finished in", "%v", r.finished)
	r.add("tricks", "%v", r.saboteur)
}

func (r *report) String() string {
	var b strings.Builder
	for _, line := range r.lines {
		fmt.Fprintf(&b, "%-28s %s\n", line[0], line[1])
	}
	return b.String()
}
