package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// table is what a report shows.
type table struct {
	tb    testing.TB
	lines [][2]string
}

// add adds a line to the table.
func (r *table) add(name, format string, args ...any) {
	r.lines = append(r.lines, [2]string{name, fmt.Sprintf(format, args...)})
}

// must adds a line whose count must be 0.
func (r *table) must(name string, wrong []string, note string) {
	r.tb.Helper()
	if note != "" {
		note = " (" + note + ")"
	}
	r.add(name, "%d%s", len(wrong), note)
	if len(wrong) > 0 {
		r.tb.Errorf("%s: %d, the first of them\n\t%s", name, len(wrong), strings.Join(wrong[:min(len(wrong), 10)], "\n\t"))
	}
}

// counted returns a map of counts as text.
func counted(counts map[string]int) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return all
}

func (r *table) String() string {
	var b strings.Builder
	for _, line := range r.lines {
		fmt.Fprintf(&b, "%-22s %s\n", line[0], line[1])
	}
	return b.String()
}
