package top

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/cmd/fairlock/internal/survey"
	"github.com/fairlock/locks/fairlock"
)

var update = flag.Bool("update", false, "write what the screens show to testdata")

// trailing matches blanks at the end of a line, which nobody sees.
var trailing = regexp.MustCompile(`(?m) +$`)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// golden compares got with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = trailing.ReplaceAllString(got, "")
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%s (%v; go test -update writes it anew): got\n%s\nwant\n%s", path, err, got, want)
	}
}

// still is a Source that always shows the same.
type still struct {
	picture *survey.Picture
	state   *fairlock.State
	err     error
}

func (s *still) Look(context.Context) (*survey.Picture, error) { return s.picture, s.err }
func (s *still) Line(context.Context, string) (*fairlock.State, time.Duration, error) {
	return s.state, time.Second, s.err
}

// scenery returns a few locks of every kind.
func scenery() *still {
	p := &survey.Picture{At: time.Date(2026, 1, 2, 15, 4, 5, 0, time.Local), Next: 2100 * time.Millisecond}
	add := func(name string, waiting int, longest time.Duration, rate float64, h *fairlock.Holder) {
		p.Locks = append(p.Locks, survey.Lock{Name: name, Holder: h, Waiting: waiting, Longest: longest, Rate: rate})
	}
	by := func(note string, held time.Duration) *fairlock.Holder {
		return &fairlock.Holder{Owner: "5a0c:17", Note: note, Token: 1700000000000000, Depth: 1, Held: held, Remaining: 27 * time.Second}
	}
	add("nightly", 0, 0, 0, by("db-1:4242 backup.sh", 3*time.Hour))
	add("{注文}:日本語のとても長い名前 🔒🔒🔒 and so on and on", 9999, 61*time.Minute, 0.04, by("東京の倉庫の在庫を数える係 of the third floor", 12*time.Second))
	add("evil\x1b[2J\nname", 3, 1500*time.Millisecond, 12.34, by("\x1b]0;title\a", 80*time.Millisecond))
	add("waited for by some, held by nobody", 2, 700*time.Millisecond, 0, nil)
	add("forgotten", 1, 20*time.Second, 0, &fairlock.Holder{Token: 7, Held: time.Second, Remaining: 29 * time.Second})
	for i := range 30 {
		add(fmt.Sprintf("order:%d", i), 12, 4*time.Second, 1234.5, by(fmt.Sprintf("web-%d:99 job", i), 42*time.Millisecond))
	}
	s := &fairlock.State{Name: "order:3", Token: 1700000000000000, Holder: by("web-3:99 job", 42*time.Millisecond)}
	for i := range 1200 {
		s.Waiters = append(s.Waiters, fairlock.Waiter{
			ID: fmt.Sprintf("01234567-89ab-cdef-0123-456789abcdef:%d", i), Owner: "an owner", Note: fmt.Sprintf("待つ人 %d", i), Waited: time.Hour - time.Duration(i)*time.Second,
		})
	}
	s.Waiting = len(s.Waiters)
	return &still{p, s, nil}
}

// player drives a Model as a tea.Program would, but no time passes: it looks again only if the
// Model asks for that.
type player struct {
	*testing.T
	model *Model
}

func starts(t *testing.T, s Source, width, height int) *player {
	p := &player{t, NewModel(t.Context(), s, "127.0.0.1:6379", false)}
	p.gets(tea.WindowSizeMsg{Width: width, Height: height})
	p.gets(p.model.Init()())
	return p
}

func (p *player) gets(message tea.Msg) tea.Cmd {
	_, cmd := p.model.Update(message)
	return cmd
}

// presses presses keys. If a key makes the Model look at once, presses does that look.
func (p *player) presses(keys ...string) {
	for _, k := range keys {
		turn := p.model.turn
		cmd := p.gets(key(k))
		if p.model.turn != turn && p.model.open != "" {
			p.gets(cmd())
		}
	}
}

func key(name string) tea.KeyPressMsg {
	switch name {
	case "enter":
		return tea.KeyPressMsg{Code: tea.KeyEnter}
	case "esc":
		return tea.KeyPressMsg{Code: tea.KeyEscape}
	case "down":
		return tea.KeyPressMsg{Code: tea.KeyDown}
	case "up":
		return tea.KeyPressMsg{Code: tea.KeyUp}
	case "pgdown":
		return tea.KeyPressMsg{Code: tea.KeyPgDown}
	case "ctrl+c":
		return tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: rune(name[0]), Text: name}
}

// screen returns the screen without colours.
func (p *player) screen() string { return ansi.Strip(p.model.View().Content) }

// line returns the first line that begins with start.
func (p *player) line(start string) string {
	for line := range strings.Lines(p.screen()) {
		if strings.HasPrefix(line, start) {
			return strings.TrimRight(line, "\n")
		}
	}
	return ""
}

// rows returns the beginnings of the lines that show locks.
func (p *player) rows() (names []string) {
	for i, line := range strings.Split(p.screen(), "\n") {
		if i >= headLines && i < p.model.height-footLines && strings.TrimSpace(line) != "" {
			names = append(names, strings.Fields(line)[0])
		}
	}
	return names
}

func TestTheScreenFitsTerminalsOfAllSizes(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}, {40, 10}} {
		p := starts(t, scenery(), size[0], size[1])
		name := fmt.Sprintf("%dx%d", size[0], size[1])
		golden(t, "all-"+name, p.screen())
		p.presses("?")
		golden(t, "help-"+name, p.screen())
		p.presses("esc", "enter")
		golden(t, "line-"+name, p.screen())
	}
}

func TestNoLineIsWiderThanTheTerminalAndNoScreenHigher(t *testing.T) {
	p := starts(t, scenery(), 80, 24)
	check := func(width, height int) {
		t.Helper()
		p.gets(tea.WindowSizeMsg{Width: width, Height: height})
		lines := strings.Split(p.screen(), "\n")
		if len(lines) > max(1, height) {
			t.Errorf("%dx%d: %d lines", width, height, len(lines))
		}
		for _, line := range lines {
			if ansi.StringWidth(line) > width || strings.ContainsAny(line, "\x1b\a\r") {
				t.Errorf("%dx%d: %q", width, height, line)
			}
		}
	}
	all := func() {
		t.Helper()
		for width := 1; width <= 130; width += 6 {
			for height := 1; height <= 40; height += 5 {
				check(width, height)
			}
		}
	}
	all()
	p.presses("?")
	all()
	p.presses("?", "enter")
	all()
	p.presses("esc", "/", "o", "r")
	all()
}

func TestTheScreenOfPlainLocksHasNoLines(t *testing.T) {
	p := &player{t, NewModel(t.Context(), scenery(), "127.0.0.1:6379", true)}
	p.gets(p.model.Init()())
	golden(t, "plain-80x24", p.screen())
}

func TestLocksAreSortedByTheColumnThatIsAskedFor(t *testing.T) {
	p := starts(t, scenery(), 80, 24)
	for _, c := range []struct{ key, first string }{
		{"w", "{注文}:日本語のと…"}, {"h", "order:0"}, {"l", "{注文}:日本語のと…"}, {"a", "nightly"}, {"n", "evil·[2J·name"}, {"r", "{注文}:日本語のと…"},
	} {
		p.presses(c.key)
		if got := p.rows()[0]; got != c.first {
			t.Errorf("%s: the first is %q, want %q", c.key, got, c.first)
		}
	}
}

func TestTheCursorFollowsTheLockThatWasChosen(t *testing.T) {
	s := scenery()
	p := starts(t, s, 80, 24)
	p.presses("n", "down", "down", "down", "down")
	name := p.model.shown[p.model.table.cursor].Name
	later := *s.picture
	later.Locks = append([]survey.Lock{{Name: "aaa"}, {Name: "aab"}}, later.Locks...)
	p.gets(pictured{picture: &later})
	if got := p.model.shown[p.model.table.cursor].Name; got != name || p.model.table.cursor != 6 {
		t.Errorf("at %d: %q, not %q", p.model.table.cursor, got, name)
	}
	p.presses("r")
	if got := p.model.shown[p.model.table.cursor].Name; got != name {
		t.Errorf("%q, not %q", got, name)
	}
	if from, to := p.model.table.seen(); p.model.table.cursor < from || p.model.table.cursor >= to {
		t.Errorf("%+v", p.model.table)
	}
	p.presses("r", "g")
	p.gets(pictured{picture: s.picture})
	if p.model.table.cursor != 0 {
		t.Errorf("it has left the top: %d", p.model.table.cursor)
	}
}

func TestAFilterLetsThroughWhatHasItInItsName(t *testing.T) {
	p := starts(t, scenery(), 80, 24)
	p.presses("/", "O", "R", "D", "q", "?")
	if p.model.View().Cursor == nil || len(p.rows()) != 0 {
		t.Errorf("typing: %s", p.screen())
	}
	p.presses("esc", "/", "O", "R", "D", "enter")
	if rows := p.rows(); len(rows) == 0 || rows[0] != "order:0" || p.line("/ORD: 30 of 35 locks") == "" {
		t.Errorf("filtered: %s", p.screen())
	}
	p.presses("esc")
	if p.line("35 locks") == "" {
		t.Errorf("all again: %s", p.screen())
	}
}

func TestALineOfManyIsGoneThroughToItsEnd(t *testing.T) {
	p := starts(t, scenery(), 80, 24)
	p.presses("enter", "G")
	if p.line("1,200") == "" {
		t.Errorf("the last is not there: %s", p.screen())
	}
	p.presses("esc")
	if p.line("35 locks") == "" {
		t.Errorf("no way back: %s", p.screen())
	}
}

func TestALineOfWhichOnlyTheFirstAreNamedIsCountedWhole(t *testing.T) {
	s := scenery()
	s.state.Waiters, s.state.Waiting = s.state.Waiters[:500], 700
	p := starts(t, s, 80, 24)
	p.presses("enter")
	if p.line("700 waiting") == "" {
		t.Errorf("%s", p.screen())
	}
}

func TestWhatWasAskedForBeforeTheScreenChangedIsNotTakenIn(t *testing.T) {
	s := scenery()
	p := starts(t, s, 80, 24)
	late := p.model.Init()
	p.gets(key("enter"))
	if p.gets(late()) != nil || p.model.open == "" || p.model.state != nil {
		t.Error("a picture of all locks was taken in where a line is shown")
	}
	if p.gets(rested{turn: 0}) != nil {
		t.Error("it looks twice")
	}
}

func TestAServerThatCannotBeLookedAtIsSaidToBeAndWhatWasSeenStays(t *testing.T) {
	s := scenery()
	p := starts(t, s, 80, 24)
	s.err = errors.New("connection\nrefused")
	p.gets(p.model.look()())
	if p.line("connection·refused") == "" || len(p.rows()) == 0 {
		t.Errorf("%s", p.screen())
	}
	s.err = nil
	p.gets(p.model.look()())
	if p.line("35 locks") == "" {
		t.Errorf("%s", p.screen())
	}
	q := starts(t, &still{err: errors.New("refused")}, 80, 24)
	if q.line("refused") == "" {
		t.Errorf("%s", q.screen())
	}
}

func TestQEndsItAndSoDoesCtrlC(t *testing.T) {
	for _, k := range []string{"q", "ctrl+c"} {
		p := starts(t, scenery(), 80, 24)
		if cmd := p.gets(key(k)); cmd == nil || cmd() != tea.Quit() {
			t.Errorf("%s does not", k)
		}
	}
}
