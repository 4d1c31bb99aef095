package output

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Table is lines of cells in columns.
type Table struct {
	Bends int // the column that is cut if the terminal is too narrow

	lines [][]string // the first line is the heading
}

const (
	gap  = 2  // between columns
	bent = 12 // no column is cut to less
)

// Add adds a line.
func (t *Table) Add(cells ...string) { t.lines = append(t.lines, cells) }

// Table adds a table for people.
func (p *Page) Table(t Table) {
	width := make([]int, len(t.lines[0]))
	all := -gap
	for column := range width {
		for _, line := range t.lines {
			width[column] = max(width[column], ansi.StringWidth(line[column]))
		}
		all += width[column] + gap
	}
	if p.Width > 0 && all > p.Width {
		width[t.Bends] = max(min(bent, width[t.Bends]), width[t.Bends]-(all-p.Width))
	}
	for i, line := range t.lines {
		var text strings.Builder
		for column, cell := range line {
			cell = ansi.Truncate(cell, width[column], "…")
			text.WriteString(cell + strings.Repeat(" ", width[column]-ansi.StringWidth(cell)+gap))
		}
		line := strings.TrimRight(text.String(), " ")
		if i == 0 {
			line = p.Dim(line)
		}
		p.Say("%s", line)
	}
}
