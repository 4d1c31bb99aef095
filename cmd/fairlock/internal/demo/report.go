package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
)

// atOnce is how soon the line must go on after its next worker was killed. That takes a millisecond
// or two; a grant to a dead worker would take three seconds to come back.
const atOnce = time.Second

// report has what the scenarios found, beside what the witness knows.
type report struct {
	recovered     time.Duration // from the time when the killed worker's turn would have come, to the next grant
	lost          int           // jobs lost with the worker
	sold, stock   int
	buyers        int
	soldOut, full int
}

// verdict checks the promises that the witness does not check.
func (s *session) verdict() []string {
	w, r := s.witness, s.report
	for _, promise := range []struct {
		kept   bool
		broken string
	}{
		{w.inversions == 0, fmt.Sprintf("%d grants were out of order", w.inversions)},
		{w.overlaps == 0, fmt.Sprintf("%d times two were in one critical section", w.overlaps)},
		{r.sold == allPieces && r.stock == 0, fmt.Sprintf("%d pieces were sold and %d are left, of %d", r.sold, r.stock, allPieces)},
		{r.buyers == allBuyers, fmt.Sprintf("%d of %d buyers were told how it ended", r.buyers, allBuyers)},
		{r.recovered > 0 && r.recovered < atOnce, fmt.Sprintf("after kill -9 it took %v until the next grant", r.recovered)},
	} {
		if !promise.kept {
			w.breaks("%s", promise.broken)
		}
	}
	return w.broken
}

// conclude shows the results. It returns an error if a promise was broken.
func (s *session) conclude() error {
	broken := s.verdict()
	switch c := s.screen; {
	case c.plain == nil:
		s.table(len(broken) == 0)
	case c.json:
		s.object(c.plain)
	default:
		s.values(c.plain)
	}
	if len(broken) > 0 {
		return exit.Errorf(exit.Broken, "broken: %s", strings.Join(broken, "; "))
	}
	return context.Cause(s.ctx) // the last lines could not be written
}

// result is one line of the results for programs.
type result struct {
	key   string
	value int64
}

// results returns the results, which are always these, in this order.
func (s *session) results() []result {
	w, r := s.witness, s.report
	return []result{
		{"grants", int64(w.grants)},
		{"inversions", int64(w.inversions)},
		{"overlaps", int64(w.overlaps)},
		{"sold", int64(r.sold)},
		{"stock", int64(r.stock)},
		{"buyers", int64(r.buyers)},
		{"handover_p50_us", output.Percentile(w.handovers, 0.50).Microseconds()},
		{"handover_p99_us", output.Percentile(w.handovers, 0.99).Microseconds()},
		{"recovered_ms", (r.recovered + time.Millisecond - 1).Milliseconds()},
	}
}

// values prints the results as lines.
func (s *session) values(out io.Writer) {
	for _, r := range s.results() {
		fmt.Fprintf(out, "%s=%d\n", r.key, r.value)
	}
}

// object prints the results as JSON.
func (s *session) object(out io.Writer) {
	all := make(map[string]int64)
	for _, r := range s.results() {
		all[r.key] = r.value
	}
	_ = json.NewEncoder(out).Encode(all) // if nobody can read it, there is nobody to tell; so it is in values
}

// table prints the results for people.
func (s *session) table(kept bool) {
	w, r, c := s.witness, s.report, s.screen
	c.heading("What the witness saw")
	c.row("grants", fmt.Sprint(w.grants), "", true)
	c.row("order inversions", fmt.Sprint(w.inversions), "", w.inversions == 0)
	c.row("overlaps", fmt.Sprint(w.overlaps), "", w.overlaps == 0)
	c.row("pieces sold", fmt.Sprint(r.sold), fmt.Sprintf("of %d, %d left, to %s buyers", allPieces, r.stock, look.Count(r.buyers)), r.sold == allPieces && r.stock == 0)
	c.row("hand-over p50", output.Milliseconds(output.Percentile(w.handovers, 0.50)), fmt.Sprintf("from unlock to grant, %d times", len(w.handovers)), true)
	c.row("hand-over p99", output.Milliseconds(output.Percentile(w.handovers, 0.99)), "", true)
	c.row("after kill -9", output.Milliseconds(r.recovered), fmt.Sprintf("to the next grant; %d jobs died with their worker", r.lost), r.recovered < atOnce)
	c.verdict(kept)
}
