package main

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// table is lines of cells in columns.
type table struct {
	lines [][]string // the first is the heading
	bends int        // the column that is cut where the terminal is too narrow
}

const (
	gap  = 2  // between columns
	bent = 12 // no column is cut to less than this
)

func (t *table) add(cells ...string) { t.lines = append(t.lines, cells) }

// table adds one for people.
func (p *page) table(t table) {
	width := make([]int, len(t.lines[0]))
	all := -gap
	for column := range width {
		for _, line := range t.lines {
			width[column] = max(width[column], ansi.StringWidth(line[column]))
		}
		all += width[column] + gap
	}
	if p.width > 0 && all > p.width {
		width[t.bends] = max(bent, width[t.bends]-(all-p.width))
	}
	for i, line := range t.lines {
		var text strings.Builder
		for column, cell := range line {
			cell = ansi.Truncate(cell, width[column], "…")
			text.WriteString(cell + strings.Repeat(" ", width[column]-ansi.StringWidth(cell)+gap))
		}
		line := strings.TrimRight(text.String(), " ")
		if i == 0 {
			line = p.dim(line)
		}
		p.say("%s", line)
	}
}
