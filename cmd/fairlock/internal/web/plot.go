package web

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/look"
)

// plot is the history of one figure, as the paths of an SVG that is as large as its frame. The text
// beside it is HTML, which no frame stretches.
type plot struct {
	Title, Now, Top string
	About           string // for those who do not see it
	Line, Area      string // in a box of plotWidth by plotHeight
	Ticks           []string
}

const (
	plotWidth, plotHeight = 600, 100
	sparkWidth            = 120
)

// spans are the lengths of time that a plot may show.
var spans = []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, remembered}

// spanOf returns the shortest span that shows the whole trail.
func spanOf(trail []point, now time.Time) time.Duration {
	for _, span := range spans {
		if len(trail) == 0 || now.UnixMilli()-trail[0].at <= span.Milliseconds() {
			return span
		}
	}
	return remembered
}

func waitingAt(p point) float64 { return float64(p.waiting) }
func rateAt(p point) float64    { return float64(p.rate) }

func whole(v float64) string { return look.Count(int(v + 0.5)) }

// figure is a number that changes over time.
type figure struct {
	title  string
	of     func(point) float64
	format func(float64) string
}

var figures = []figure{{"Waiting", waitingAt, whole}, {"Hand-overs a second", rateAt, look.Rate}}

// plots draws all figures of a trail.
func plots(trail []point, now time.Time) (all []plot) {
	span := spanOf(trail, now)
	for _, f := range figures {
		most, last := 0.0, 0.0
		for _, p := range trail {
			last = f.of(p)
			most = max(most, last)
		}
		top := nice(most)
		p := plot{Title: f.title, Now: f.format(last), Top: f.format(top)}
		p.About = fmt.Sprintf("%s over the last %s: now %s, at most %s", f.title, minutes(span), p.Now, f.format(most))
		p.Line, p.Area = paths(trail, f.of, now, span, top, plotWidth)
		p.Ticks = []string{minutes(span) + " ago", minutes(span/2) + " ago", "now"}
		all = append(all, p)
	}
	return all
}

// spark draws the waiting of a trail, small.
func spark(trail []point, now time.Time, span time.Duration) (line, area string) {
	most := 0.0
	for _, p := range trail {
		most = max(most, waitingAt(p))
	}
	if most == 0 {
		return "", ""
	}
	return paths(trail, waitingAt, now, span, most*1.2, sparkWidth)
}

func minutes(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Minutes()), ".0") + " min"
}

// nice returns the next of 1, 2, 5, 10, 20, 50 and so on.
func nice(v float64) float64 {
	if v <= 1 {
		return 1
	}
	size := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if v <= f*size {
			return f * size
		}
	}
	return 10 * size
}

// paths draws a figure in steps, with at most one for two units of width. Where nobody looked,
// there is a gap.
func paths(trail []point, of func(point) float64, now time.Time, span time.Duration, top float64, width int) (line, area string) {
	var lines, areas strings.Builder
	end := now.UnixMilli()
	x := func(at int64) int {
		return max(0, width-int(float64(end-at)/float64(span.Milliseconds())*float64(width)))
	}
	y := func(v float64) string { return fmt.Sprintf("%.1f", 99-97*min(v/top, 1)) }
	for i := 0; i < len(trail); {
		from := x(trail[i].at)
		fmt.Fprintf(&lines, "M%d %s", from, y(of(trail[i])))
		fmt.Fprintf(&areas, "M%d 100V%s", from, y(of(trail[i])))
		for gap := false; i < len(trail) && !gap; {
			at, v, until := x(trail[i].at), 0.0, int64(0)
			for ; i < len(trail) && x(trail[i].at) < at+2; i++ { // as narrow as a line: the largest counts
				v, until = max(v, of(trail[i])), trail[i].until
			}
			to := end
			if i < len(trail) {
				to = trail[i].at
			}
			gap = to > until
			step := fmt.Sprintf("V%sH%d", y(v), x(min(to, until)))
			lines.WriteString(step)
			areas.WriteString(step)
		}
		areas.WriteString("V100Z")
	}
	return lines.String(), areas.String()
}
