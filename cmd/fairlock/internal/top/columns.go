package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/cmd/fairlock/internal/survey"
)

// column is a column of the table of locks.
type column struct {
	title string
	key   string // the key that sorts by it; "": none
	help  string
	width int  // 0: the rest of the width
	from  int  // the narrowest screen that shows it
	right bool // flush right
	line  bool // about the line, which plain locks do not have
	text  func(survey.Lock) string
	order func(a, b survey.Lock) int // the most interesting lock first
}

// columns are in the order of the screen.
var columns = []column{
	{title: "LOCK", key: "n", help: "name", text: func(l survey.Lock) string { return look.Plain(l.Name) }, order: survey.ByName},
	{
		title: "WAITING", key: "w", help: "waiting", width: 8, right: true, line: true,
		text:  func(l survey.Lock) string { return look.Count(l.Waiting) },
		order: survey.ByWaiting,
	},
	{
		title: "HAND/S", key: "h", help: "hand-overs", width: 7, right: true,
		text:  func(l survey.Lock) string { return look.Rate(l.Rate) },
		order: survey.ByRate,
	},
	{
		title: "LONGEST", key: "l", help: "longest wait", width: 8, right: true, line: true,
		text:  longest,
		order: survey.ByLongest,
	},
	{
		title: "HELD", key: "a", help: "held for", width: 7, right: true, from: 56,
		text:  func(l survey.Lock) string { return ofHolder(l, held(l)) },
		order: func(a, b survey.Lock) int { return cmp.Compare(held(b), held(a)) },
	},
	{
		title: "LEASE", width: 6, right: true, from: 64,
		text: func(l survey.Lock) string { return ofHolder(l, remaining(l)) },
	},
	{title: "HOLDER", from: 64, text: holder},
}

func longest(l survey.Lock) string {
	if l.Waiting == 0 {
		return "-"
	}
	return look.Span(l.Longest)
}

func holder(l survey.Lock) string {
	if l.Damaged != "" {
		return look.Holder(l.Holder) + " (damaged)"
	}
	return look.Holder(l.Holder)
}

func held(l survey.Lock) time.Duration {
	if l.Holder == nil {
		return 0
	}
	return l.Holder.Held
}

func remaining(l survey.Lock) time.Duration {
	if l.Holder == nil {
		return 0
	}
	return l.Holder.Remaining
}

func ofHolder(l survey.Lock, d time.Duration) string {
	if l.Holder == nil {
		return "-"
	}
	return look.Span(d)
}

// sorted returns a copy in the order of a column, and by name where the column is equal.
func sorted(locks []survey.Lock, by column, reverse bool) []survey.Lock {
	all := slices.Clone(locks)
	slices.SortFunc(all, func(a, b survey.Lock) int {
		order := by.order(a, b)
		if reverse {
			order = -order
		}
		return cmp.Or(order, survey.ByName(a, b))
	})
	return all
}

// fitting returns the columns that fit a screen of this width, with their widths.
func fitting(width int, plain bool) []column {
	var all []column
	rest, open := width, 0
	for _, c := range columns {
		if c.from > width || plain && c.line {
			continue
		}
		if c.width == 0 {
			open++
		}
		rest -= c.width + 1
		all = append(all, c)
	}
	rest++ // no gap after the last column
	for i := range all {
		if all[i].width == 0 {
			all[i].width = max(1, rest/open)
			rest -= all[i].width
			open--
		}
	}
	return all
}

// cell returns text cut or filled up to a width.
func cell(text string, width int, right bool) string {
	text = ansi.Truncate(text, width, "…")
	space := strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
	if right {
		return space + text
	}
	return text + space
}
