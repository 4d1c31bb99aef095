package top

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/cmd/fairlock/internal/survey"
)

// Snapshot makes a few Pictures within about a second, for the rates, and returns the last one.
func Snapshot(ctx context.Context, s *survey.Survey) (p *survey.Picture, err error) {
	for began := time.Now(); ; {
		if p, err = s.Look(ctx); err != nil {
			return nil, err
		}
		rest := max(time.Second/5, 10*p.Spent)
		if time.Since(began)+rest >= time.Second { // nobody looks after it, and the Picture grows old
			return p, nil
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// WriteText writes a Picture as a table, the longest lines first, with nothing cut off.
func WriteText(out io.Writer, p *survey.Picture, plain bool) error {
	columns := fitting(1<<10, plain)
	by := columns[1] // waiting or, for plain locks, hand-overs
	rows := [][]string{make([]string, len(columns))}
	for i, c := range columns {
		rows[0][i] = c.title
	}
	for _, l := range sorted(p.Locks, by, false) {
		row := make([]string, len(columns))
		for i, c := range columns {
			row[i] = c.text(l)
		}
		rows = append(rows, row)
	}
	for i := range columns {
		columns[i].width = 0
		for _, row := range rows {
			columns[i].width = max(columns[i].width, ansi.StringWidth(row[i]))
		}
	}
	text := bufio.NewWriter(out)
	for _, row := range rows {
		for i, c := range columns {
			row[i] = cell(row[i], c.width, c.right)
		}
		fmt.Fprintln(text, strings.TrimRight(strings.Join(row, "  "), " "))
	}
	t := p.Totals()
	if plain { // their lines are known to the waiters' own processes only
		fmt.Fprintf(text, "%s locks, %s held, %s hand-overs/s\n", look.Count(t.Locks), look.Count(t.Held), look.Rate(t.Rate))
		return text.Flush()
	}
	fmt.Fprintf(text, "%s locks, %s held, %s waiting, %s hand-overs/s, longest wait %s\n",
		look.Count(t.Locks), look.Count(t.Held), look.Count(t.Waiting), look.Rate(t.Rate), look.Span(t.Longest))
	return text.Flush()
}

// WriteJSON writes a Picture as one object.
func WriteJSON(out io.Writer, p *survey.Picture) error {
	type lock struct {
		Name      string  `json:"lock"`
		Name64    string  `json:"lock_base64,omitempty"`
		Waiting   int     `json:"waiting"`
		Rate      float64 `json:"handovers_per_second"`
		Longest   int64   `json:"longest_wait_ms"`
		Held      bool    `json:"held"`
		Owner     string  `json:"owner,omitempty"`
		Owner64   string  `json:"owner_base64,omitempty"`
		Note      string  `json:"note,omitempty"`
		Note64    string  `json:"note_base64,omitempty"`
		Token     int64   `json:"token,omitempty"`
		HeldFor   int64   `json:"held_ms,omitempty"`
		Remaining int64   `json:"remaining_ms,omitempty"`
		Damaged   string  `json:"damaged,omitempty"`
	}
	t := p.Totals()
	all := struct {
		At      time.Time `json:"at"`
		Held    int       `json:"held"`
		Waiting int       `json:"waiting"`
		Rate    float64   `json:"handovers_per_second"`
		Longest int64     `json:"longest_wait_ms"`
		Locks   []lock    `json:"locks"`
	}{p.At.UTC(), t.Held, t.Waiting, t.Rate, t.Longest.Milliseconds(), []lock{}}
	for _, l := range sorted(p.Locks, columns[0], false) {
		row := lock{Name: l.Name, Name64: look.Base64(l.Name), Waiting: l.Waiting, Rate: l.Rate, Longest: l.Longest.Milliseconds(), Damaged: l.Damaged}
		if h := l.Holder; h != nil {
			row.Held, row.Owner, row.Note, row.Token = true, h.Owner, h.Note, h.Token
			row.Owner64, row.Note64 = look.Base64(h.Owner), look.Base64(h.Note)
			if h.Undecided {
				row.Token = 0 // not known yet
			}
			row.HeldFor, row.Remaining = h.Held.Milliseconds(), h.Remaining.Milliseconds()
		}
		all.Locks = append(all.Locks, row)
	}
	return look.JSON(out, all)
}
