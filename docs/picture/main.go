// Command picture draws what a terminal shows: it reads the text of one, with colours, from
// standard input, and writes an SVG.
//
//	tmux capture-pane -e -p | picture -columns 100 >demo.svg
package main

import (
	"bufio"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// The size of a cell and of the margin around them, in pixels.
const (
	wide, high, margin = 8.4, 18, 16
	baseline           = 13 // from a cell's top
)

// palette is the colours 0 to 15, for a dark background.
var palette = []string{
	"#3b4252", "#e5707a", "#8fc67c", "#e2c08d", "#71a7e8", "#c792d9", "#6cc3cf", "#d8dee9",
	"#68758a", "#f08c95", "#a9dc94", "#f0d29f", "#8fbcf5", "#d9aee8", "#8bd8e2", "#ffffff",
}

const (
	ground = "#1c2128"
	ink    = "#d8dee9"
)

// style is how a cell looks.
type style struct {
	colour      string
	bold, faint bool
}

func main() {
	columns := flag.Int("columns", 100, "how wide the terminal is")
	flag.Parse()
	if err := draw(os.Stdout, os.Stdin, *columns); err != nil {
		log.Fatal(err)
	}
}

// draw reads a screen and writes its picture.
func draw(w io.Writer, r io.Reader, columns int) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n "), "\n")
	out := bufio.NewWriter(w)
	width, height := float64(columns)*wide+2*margin, len(lines)*high+2*margin
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %d" width="%g" height="%d">`+"\n", width, height, width, height)
	fmt.Fprintf(out, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", ground)
	fmt.Fprintln(out, `<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="14" xml:space="preserve" style="white-space:pre">`)
	now := style{colour: ink}
	for y, line := range lines {
		now = drawLine(out, line, margin+y*high+baseline, now)
	}
	fmt.Fprintln(out, "</g>\n</svg>")
	return out.Flush()
}

// drawLine writes a line of the screen, and returns the style at its end.
func drawLine(out io.Writer, line string, y int, now style) style {
	x := 0
	var run strings.Builder
	from := 0
	flush := func() {
		if text := run.String(); strings.TrimSpace(text) != "" {
			drawRun(out, text, from, x-from, y, now)
		}
		run.Reset()
		from = x
	}
	var state byte
	for line != "" {
		sequence, width, n, next := ansi.DecodeSequence(line, state, nil)
		line, state = line[n:], next
		if width > 0 {
			run.WriteString(sequence)
			x += width
			continue
		}
		if codes, ok := strings.CutPrefix(sequence, "\x1b["); ok && strings.HasSuffix(codes, "m") {
			flush()
			now = now.after(strings.TrimSuffix(codes, "m"))
		}
	}
	flush()
	return now
}

// drawRun writes cells of one style. Their width is said, so that they stand in columns whatever
// the font is.
func drawRun(out io.Writer, text string, x, cells, y int, s style) {
	fmt.Fprintf(out, `<text x="%.1f" y="%d" textLength="%.1f" fill="%s"`, margin+float64(x)*wide, y, float64(cells)*wide, s.colour)
	if s.bold {
		fmt.Fprint(out, ` font-weight="bold"`)
	}
	if s.faint {
		fmt.Fprint(out, ` opacity="0.6"`)
	}
	fmt.Fprint(out, ">")
	_ = xml.EscapeText(out, []byte(text)) // out keeps its error until Flush
	fmt.Fprintln(out, "</text>")
}

// after is the style once these codes have been read.
func (s style) after(codes string) style {
	for code := range strings.SplitSeq(codes, ";") {
		n, _ := strconv.Atoi(code) // of "" it is 0
		switch {
		case n == 0:
			s = style{colour: ink}
		case n == 1:
			s.bold = true
		case n == 2:
			s.faint = true
		case n == 22:
			s.bold, s.faint = false, false
		case n >= 30 && n <= 37:
			s.colour = palette[n-30]
		case n == 39:
			s.colour = ink
		case n >= 90 && n <= 97:
			s.colour = palette[n-90+8]
		}
	}
	return s
}
