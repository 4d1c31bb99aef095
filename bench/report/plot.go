package report

import (
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// least stands for 0 on a logarithmic scale, which has no zero.
const least = 0.01

const margin = 0.3 * vg.Centimeter

// Draw writes the table's plot into dir: bars of the peers if there is one case, else lines over
// the cases.
func (t *Table) Draw(dir string) error {
	plot.DefaultFont.Variant = "Sans"
	p := plot.New()
	p.Title.Text, p.Title.Padding = t.Title, margin
	p.X.Tick.Marker, p.Y.Tick.Marker = ticks(plot.DefaultTicks{}), ticks(plot.DefaultTicks{})
	head := t.head()
	cases := t.cases()
	draw, height := t.lines, 12*vg.Centimeter
	if len(cases) == 1 {
		draw, height = t.bars, vg.Length(3+len(t.Rows))*vg.Centimeter*0.8
		p.X.Label.Text = head
	} else {
		p.Y.Label.Text = head
	}
	if err := draw(p, cases); err != nil {
		return err
	}
	return p.Save(22*vg.Centimeter, height, filepath.Join(dir, t.Workload+".svg"))
}

// ticks labels the marks of another ticker in the way that tables write numbers.
func ticks(t plot.Ticker) plot.Ticker {
	return plot.TickerFunc(func(low, high float64) []plot.Tick {
		marks := t.Ticks(low, high)
		for i, m := range marks {
			if m.Label != "" {
				marks[i].Label = digits(m.Value)
			}
		}
		return marks
	})
}

func (t *Table) head() string {
	for _, c := range t.Columns {
		if c.Key == t.Plot {
			return c.Head
		}
	}
	return t.Plot
}

func (t *Table) cases() (labels []string) {
	for _, row := range t.Rows {
		if !slices.Contains(labels, row.Case) {
			labels = append(labels, row.Case)
		}
	}
	return labels
}

func (t *Table) bars(p *plot.Plot, _ []string) error {
	var values plotter.Values
	var names []string
	for _, row := range slices.Backward(t.Rows) { // the first row on top
		if stat, ok := row.Values[t.Plot]; ok {
			values, names = append(values, stat.Median), append(names, row.Peer)
		}
	}
	if len(values) == 0 {
		return nil
	}
	chart, err := plotter.NewBarChart(values, 0.5*vg.Centimeter)
	if err != nil {
		return err
	}
	chart.Horizontal = true
	chart.Color = plotutil.Color(2)
	p.Add(chart)
	p.NominalY(names...)
	p.X.Min, p.X.Max = 0, 1.05*slices.Max(values)
	p.X.Label.Padding, p.Y.Padding = margin, margin
	return nil
}

func (t *Table) lines(p *plot.Plot, cases []string) error {
	if t.Log {
		p.Y.Scale = plot.LogScale{}
		p.Y.Tick.Marker = ticks(plot.LogTicks{})
	} else {
		p.Y.Min = 0
	}
	lines := map[string]plotter.XYs{}
	var names []string
	for _, row := range t.Rows {
		stat, ok := row.Values[t.Plot]
		if !ok {
			continue
		}
		if lines[row.Peer] == nil {
			names = append(names, row.Peer)
		}
		value := stat.Median
		if t.Log {
			value = max(value, least)
		}
		x := float64(slices.Index(cases, row.Case))
		lines[row.Peer] = append(lines[row.Peer], plotter.XY{X: x, Y: value})
	}
	for i, name := range names {
		line, points, err := plotter.NewLinePoints(lines[name])
		if err != nil {
			return err
		}
		line.Color, line.Dashes = plotutil.Color(i), plotutil.Dashes(i/7)
		points.Color, points.Shape = plotutil.Color(i), plotutil.Shape(i)
		p.Add(line, points)
		p.Legend.Add(name, line, points)
	}
	p.Legend.Top, p.Legend.Padding = true, margin/3
	p.NominalX(append(cases, "")...)
	p.X.Max = float64(len(cases)) // room for the legend
	p.Y.Label.Padding = margin
	return nil
}
