package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Markdown returns the table with its title, plot and notes. It reads well in a terminal, too.
func (t *Table) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", t.About)
	fmt.Fprintf(&b, "%s. %s. Scale %s, %d repeats, interleaved between the peers; medians, ± the farthest repeat.\n\n",
		t.Machine, t.Versions, t.Scale, t.Repeats)
	footnotes := t.table(&b)
	for i, note := range footnotes {
		fmt.Fprintf(&b, "%d. %s\n", i+1, note)
	}
	if len(footnotes) > 0 {
		b.WriteByte('\n')
	}
	t.goals(&b)
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// table writes the figures and returns the reasons for missing ones.
func (t *Table) table(b *strings.Builder) (footnotes []string) {
	manyCases := slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Case != t.Rows[0].Case })
	lines := [][]string{{}}
	if manyCases {
		lines[0] = append(lines[0], "case")
	} else if len(t.Rows) > 0 {
		fmt.Fprintf(b, "n: %s.\n\n", t.Rows[0].Case)
	}
	lines[0] = append(lines[0], "peer")
	for _, c := range t.Columns {
		lines[0] = append(lines[0], c.Head)
	}
	for _, row := range t.Rows {
		var line []string
		if manyCases {
			line = append(line, row.Case)
		}
		line = append(line, row.name())
		missing := "-"
		if row.Why != "" {
			i := slices.Index(footnotes, row.Why)
			if i < 0 {
				footnotes, i = append(footnotes, row.Why), len(footnotes)
			}
			missing = fmt.Sprintf("- [%d]", i+1)
		}
		for _, c := range t.Columns {
			if stat, ok := row.Values[c.Key]; ok {
				line = append(line, stat.String())
			} else {
				line = append(line, missing)
				missing = "-"
			}
		}
		lines = append(lines, line)
	}
	aligned(b, len(lines[0])-len(t.Columns), lines)
	b.WriteByte('\n')
	return footnotes
}

// aligned writes a Markdown table with aligned columns: first columns of words, then columns of
// numbers, which are set to the right.
func aligned(b *strings.Builder, words int, lines [][]string) {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 4)
		}
	}
	write := func(line []string) {
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < words {
				b.WriteString("| " + cell + pad + " ")
			} else {
				b.WriteString("| " + pad + cell + " ")
			}
		}
		b.WriteString("|\n")
	}
	write(lines[0])
	for i, width := range widths {
		rule := strings.Repeat("-", width)
		if i >= words {
			rule = rule[1:] + ":"
		}
		b.WriteString("| " + rule + " ")
	}
	b.WriteString("|\n")
	for _, line := range lines[1:] {
		write(line)
	}
}

func (t *Table) goals(b *strings.Builder) {
	if len(t.Goals) == 0 {
		return
	}
	lines := [][]string{{"goal", "measured", "met"}}
	for _, g := range t.Goals {
		measured, met := "-", "not measured"
		if g.Known {
			measured, met = digits(g.Value), "no"
		}
		if g.Met {
			met = "yes"
		}
		lines = append(lines, []string{g.Text, measured, met})
	}
	aligned(b, 1, lines)
	b.WriteByte('\n')
}

func (r Row) name() string {
	if r.Floor {
		return "*" + r.Peer + "*"
	}
	return r.Peer
}

// String returns the figure to three digits, with its spread.
func (s Stat) String() string {
	text := digits(s.Median)
	if s.Capped {
		return "> " + text
	}
	if percent := math.Round(100 * s.Spread()); percent > 0 {
		text += fmt.Sprintf(" ±%.0f%%", percent)
	}
	return text
}

// digits returns v with three significant digits, or with all digits before the point if there are
// more.
func digits(v float64) string {
	size := math.Abs(v)
	switch {
	case size == 0:
		return "0"
	case size < 0.01:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case size < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case size < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	text := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	if v < 0 {
		text = "-" + text
	}
	return text
}
