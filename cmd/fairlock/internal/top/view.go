package top

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/cmd/fairlock/internal/survey"
)

// How many lines are above the rows, and below.
const (
	headLines     = 3 // title, totals, columns
	lineHeadLines = 5 // title, holder, its times, the line, columns
	footLines     = 1
)

var (
	titled  = lipgloss.NewStyle().Bold(true)
	faint   = lipgloss.NewStyle().Faint(true)
	header  = lipgloss.NewStyle().Reverse(true)
	chosen  = lipgloss.NewStyle().Foreground(lipgloss.Black).Background(lipgloss.Cyan)
	alarm   = lipgloss.NewStyle().Foreground(lipgloss.Red)
	warning = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
)

// View is the screen.
func (m *Model) View() tea.View {
	var lines []string
	switch {
	case m.help:
		lines = m.viewHelp()
	case m.open != "":
		lines = m.viewLine()
	default:
		lines = m.viewTable()
	}
	lines = lines[:min(len(lines), max(0, m.height-footLines))]
	for len(lines) < m.height-footLines {
		lines = append(lines, "")
	}
	view := tea.View{AltScreen: true}
	if foot := m.foot(); m.filter.Focused() && !m.help {
		lines = append(lines, m.filter.View())
		if view.Cursor = m.filter.Cursor(); view.Cursor != nil {
			view.Cursor.Y = len(lines) - 1
		}
	} else {
		lines = append(lines, faint.Render(cell(foot, m.width, false)))
	}
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "") // if not even the columns fit
	}
	view.Content = strings.Join(lines, "\n")
	return view
}

// ends returns a line with text on its left and on its right. If there is no room, the text on the
// right goes first.
func (m *Model) ends(style lipgloss.Style, left, right string) string {
	space := m.width - lipgloss.Width(left) - lipgloss.Width(right)
	if right == "" || space < 2 {
		return style.Render(cell(left, m.width, false))
	}
	return style.Render(left) + strings.Repeat(" ", space) + faint.Render(right)
}

func (m *Model) viewTable() []string {
	p := m.picture
	if p == nil {
		return []string{m.ends(titled, "fairlock top  "+m.server, ""), m.trouble("looking ...")}
	}
	lines := []string{
		m.ends(titled, "fairlock top  "+m.server, fmt.Sprintf("%s, every %s", p.At.Format("15:04:05"), look.Span(p.Next))),
		m.trouble(m.totals()),
	}
	columns := fitting(m.width, m.plain)
	row := make([]string, len(columns))
	for i, c := range columns {
		if c.title == m.by.title {
			c.title = mark[m.reverse] + c.title
		}
		row[i] = cell(c.title, c.width, c.right)
	}
	lines = append(lines, header.Render(strings.Join(row, " ")))
	from, to := m.table.seen()
	for at := from; at < to; at++ {
		l := m.shown[at]
		for i, c := range columns {
			row[i] = cell(c.text(l), c.width, c.right)
		}
		lines = append(lines, m.style(l, at).Render(strings.Join(row, " ")))
	}
	return lines
}

// mark stands at the column that sorts the table.
var mark = map[bool]string{false: "▾", true: "▴"}

func (m *Model) style(l survey.Lock, at int) lipgloss.Style {
	switch {
	case at == m.table.cursor:
		return chosen
	case l.Holder == nil || l.Damaged != "":
		return alarm // calls wait for a lock that is free
	case l.Holder.Owner == "":
		return warning
	default:
		return lipgloss.NewStyle()
	}
}

// totals returns the totals of all locks, whatever the filter lets through.
func (m *Model) totals() string {
	t := m.picture.Totals()
	unit, wait := " hand-overs/s", "longest "
	if m.width < 60 {
		unit, wait = "/s", ""
	}
	parts := []string{look.Count(t.Locks) + " locks", look.Count(t.Waiting) + " waiting", look.Rate(t.Rate) + unit, wait + look.Span(t.Longest)}
	if m.plain {
		parts = []string{look.Count(t.Locks) + " locks", look.Rate(t.Rate) + unit}
	}
	if want := m.filter.Value(); want != "" && !m.filter.Focused() {
		parts[0] = fmt.Sprintf("/%s: %s of %s", look.Plain(want), look.Count(len(m.shown)), parts[0])
	}
	return strings.Join(parts, "  ")
}

// trouble returns the line or, instead of it, what went wrong with the last look.
func (m *Model) trouble(line string) string {
	if m.failed == nil {
		return cell(line, m.width, false)
	}
	return alarm.Render(cell(look.Error(m.failed), m.width, false))
}

func (m *Model) viewLine() []string {
	name := titled.Render(cell(look.Plain(m.open), m.width, false))
	s := m.state
	if s == nil {
		return []string{name, m.trouble("looking ...")}
	}
	lines := []string{name}
	if h := s.Holder; h == nil {
		lines = append(lines, alarm.Render(cell("nobody has it", m.width, false)), "")
	} else {
		lines = append(lines,
			cell("held by "+look.Holder(h)+", "+look.Plain(h.Owner), m.width, false),
			cell(fmt.Sprintf("for %s, lease ends in %s, depth %d, token %s", look.Span(h.Held), look.Span(h.Remaining), h.Depth, look.Token(h)), m.width, false))
	}
	if s.Damaged != nil {
		lines[1] = alarm.Render(cell("damaged: "+look.Error(s.Damaged), m.width, false))
	}
	number := len(look.Count(len(s.Waiters)))
	who := max(1, (m.width-number-10)*3/5)
	lines = append(lines,
		m.trouble(look.Count(max(s.Waiting, len(s.Waiters)))+" waiting"), // a quorum names the first 500
		header.Render(cell(cell("", number, true)+" "+cell("WAITED", 7, true)+"  "+cell("WAITER", who, false)+" ID", m.width, false)))
	from, to := m.line.seen()
	for at := from; at < to; at++ {
		w := s.Waiters[at]
		row := cell(look.Count(at+1), number, true) + " " + cell(look.Span(w.Waited), 7, true) + "  " + cell(look.Who(w.Note, w.Owner), who, false) + " " + look.Plain(w.ID)
		style := lipgloss.NewStyle()
		if at == m.line.cursor {
			style = chosen
		}
		lines = append(lines, style.Render(cell(row, m.width, false)))
	}
	return lines
}
