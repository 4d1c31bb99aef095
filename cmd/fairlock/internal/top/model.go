package top

import (
	"context"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/fairlock/locks/cmd/fairlock/internal/survey"
	"github.com/fairlock/locks/fairlock"
)

// Source is what a Model shows. A Survey is a Source.
type Source interface {
	Look(ctx context.Context) (*survey.Picture, error)
	Line(ctx context.Context, name string) (state *fairlock.State, next time.Duration, err error)
}

// again is how long a Model waits after a look that failed.
const again = 2 * time.Second

// Model is the live screen.
type Model struct {
	ctx    context.Context
	source Source
	server string // where the locks are
	plain  bool

	width, height int
	help          bool

	picture *survey.Picture // the last one; nil: none yet
	failed  error           // why there is no later one
	shown   []survey.Lock   // the locks of the picture that the filter lets through, in order
	by      column
	reverse bool
	filter  textinput.Model
	table   grid
	chosen  string // the cursor follows this lock; "": the cursor stays at the top

	open  string // the lock whose line is shown; "": all locks are shown
	state *fairlock.State
	line  grid
	turn  int // results of looks from an earlier turn are dropped
}

// NewModel returns a Model that shows what source sees of the server. Its waits end with ctx.
func NewModel(ctx context.Context, source Source, server string, plain bool) *Model {
	filter := textinput.New()
	filter.Prompt = "/"
	filter.SetVirtualCursor(false)
	m := &Model{ctx: ctx, source: source, server: server, plain: plain, width: 80, height: 24, filter: filter}
	m.by = m.sortable()[0]
	for _, c := range m.sortable() {
		if c.key == "w" || c.key == "h" && plain {
			m.by = c
		}
	}
	return m
}

// sortable returns the columns that locks can be sorted by.
func (m *Model) sortable() []column {
	return slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return c.key == "" || c.line && m.plain })
}

// The messages that the Model waits for. Each carries the turn in which it was asked for.
type (
	pictured struct {
		turn    int
		picture *survey.Picture
		err     error
	}
	inspected struct {
		turn  int
		state *fairlock.State
		next  time.Duration
		err   error
	}
	rested struct{ turn int }
)

// Init begins to look.
func (m *Model) Init() tea.Cmd { return m.look() }

// look looks at what is to be shown now.
func (m *Model) look() tea.Cmd {
	ctx, source, turn, name := m.ctx, m.source, m.turn, m.open
	if name == "" {
		return func() tea.Msg {
			p, err := source.Look(ctx)
			return pictured{turn, p, err}
		}
	}
	return func() tea.Msg {
		state, next, err := source.Line(ctx, name)
		return inspected{turn, state, next, err}
	}
}

// rest looks again after a while.
func (m *Model) rest(next time.Duration, err error) tea.Cmd {
	if err != nil {
		next = again
	}
	ctx, turn := m.ctx, m.turn
	return func() tea.Msg { // not tea.Tick, which nothing can end
		select {
		case <-ctx.Done():
		case <-time.After(next):
		}
		return rested{turn}
	}
}

// Update handles a message.
func (m *Model) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = message.Width, message.Height
	case pictured:
		if message.turn != m.turn {
			return m, nil
		}
		if m.failed = message.err; message.err == nil {
			m.picture = message.picture
			cmd = m.rest(message.picture.Next, nil)
		} else {
			cmd = m.rest(0, message.err)
		}
	case inspected:
		if message.turn != m.turn {
			return m, nil
		}
		if m.failed = message.err; message.err == nil {
			m.state = message.state
		}
		cmd = m.rest(message.next, message.err)
	case rested:
		if message.turn == m.turn {
			cmd = m.look()
		}
	case tea.KeyPressMsg:
		cmd = m.press(message)
	default:
		m.filter, cmd = m.filter.Update(message)
	}
	m.arrange()
	return m, cmd
}

// arrange updates what is shown after a change of the picture, the filter or the size.
func (m *Model) arrange() {
	m.filter.SetWidth(max(1, m.width-2))
	if m.picture != nil {
		want := strings.ToLower(m.filter.Value())
		locks := slices.DeleteFunc(slices.Clone(m.picture.Locks), func(l survey.Lock) bool {
			return !strings.Contains(strings.ToLower(l.Name), want)
		})
		m.shown = sorted(locks, m.by, m.reverse)
	}
	if at := slices.IndexFunc(m.shown, func(l survey.Lock) bool { return l.Name == m.chosen }); m.chosen != "" && at >= 0 {
		m.table.cursor = at
	}
	m.table.fit(len(m.shown), m.height-headLines-footLines)
	if m.state != nil {
		m.line.fit(len(m.state.Waiters), m.height-lineHeadLines-footLines)
	}
}

// press handles a key.
func (m *Model) press(key tea.KeyPressMsg) (cmd tea.Cmd) {
	switch name := key.String(); {
	case name == "ctrl+c":
		return tea.Quit
	case name == "ctrl+z":
		return tea.Suspend
	case m.filter.Focused():
		return m.typeIn(key)
	case name == "q":
		return tea.Quit
	case name == "?":
		m.help = !m.help
	case m.help:
		m.help = false
	case m.open != "":
		return m.pressInLine(name)
	default:
		return m.pressInTable(name)
	}
	return nil
}

func (m *Model) pressInTable(name string) tea.Cmd {
	switch {
	case name == "/":
		return m.filter.Focus()
	case name == "esc":
		m.filter.Reset()
	case name == "enter" && m.table.cursor < len(m.shown):
		return m.turnTo(m.shown[m.table.cursor].Name)
	case name == "r":
		m.reverse = !m.reverse
	case m.table.move(name):
		m.chosen = ""
		if m.table.cursor > 0 {
			m.chosen = m.shown[m.table.cursor].Name
		}
	default:
		for _, c := range m.sortable() {
			if c.key == name {
				m.by, m.reverse = c, false
			}
		}
	}
	return nil
}

func (m *Model) pressInLine(name string) tea.Cmd {
	switch name {
	case "esc", "backspace", "left":
		return m.turnTo("")
	default:
		m.line.move(name)
	}
	return nil
}

// turnTo shows the line of a lock, or all locks. All locks are shown as they were last seen, until
// it is time to look again.
func (m *Model) turnTo(name string) tea.Cmd {
	m.open, m.state, m.line, m.failed = name, nil, grid{}, nil
	m.turn++
	if name != "" || m.picture == nil {
		return m.look()
	}
	return m.rest(time.Until(m.picture.At.Add(m.picture.Next)), nil)
}

// typeIn types into the filter.
func (m *Model) typeIn(key tea.KeyPressMsg) (cmd tea.Cmd) {
	switch key.String() {
	case "enter":
		m.filter.Blur()
	case "esc":
		m.filter.Reset()
		m.filter.Blur()
	default:
		m.filter, cmd = m.filter.Update(key)
	}
	m.chosen, m.table.cursor = "", 0
	return cmd
}
