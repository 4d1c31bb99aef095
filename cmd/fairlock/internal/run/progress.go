package run

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/fairlock"
)

// progress shows on stderr how the waiting goes. On a terminal it overwrites one line. Elsewhere it
// writes a line for each change, and only if verbose. No colours.
type progress struct {
	out     *os.File
	live    bool // a terminal
	verbose bool
	began   time.Time

	mu      sync.Mutex    // guards all below, and the order of what is written
	drawn   bool          // the cursor is on the line to overwrite
	written chan struct{} // closed when the last write has ended
}

// unread is how long a line may wait for a reader of stderr. After a full pipe or Ctrl-S nobody may
// ever read: then lines are dropped, because neither the lock nor a signal can wait for that.
const unread = 100 * time.Millisecond

func newProgress(out *os.File, verbose bool) *progress {
	live := term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"
	p := &progress{out: out, live: live, verbose: verbose, began: time.Now(), written: make(chan struct{})}
	close(p.written)
	return p
}

// Write writes a line of another writer, or drops it.
func (p *progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(string(text))
	return len(text), nil
}

// clear erases the line.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		p.put("")
	}
}

// put writes text in place of the line. It returns when that is written, or after unread. While a
// write stands still there is no other. p.mu must be held.
func (p *progress) put(text string) {
	if p.drawn {
		text = "\r\x1b[K" + text
		p.drawn = false
	}
	late := time.After(unread)
	select {
	case <-p.written:
	case <-late:
		return
	}
	p.written = make(chan struct{})
	go p.write(text, p.written)
	select {
	case <-p.written:
	case <-late:
	}
}

func (p *progress) write(text string, written chan<- struct{}) {
	defer close(written)
	fmt.Fprint(p.out, text)
}

// draw writes the line, over the previous one.
func (p *progress) draw(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.live {
		p.put(text + "\n")
		return
	}
	if width, _, err := term.GetSize(int(p.out.Fd())); err == nil && width > 1 {
		text = ansi.Truncate(text, width-1, "") // in cells: some characters have two
	}
	p.put(text)
	p.drawn = true
}

// acquired says that the waiting is over.
func (p *progress) acquired(lease *fairlock.Lease) {
	p.say("%q acquired after %v, token %d", lease.Name(), time.Since(p.began).Round(time.Millisecond), lease.Token())
	p.began = time.Now()
}

// released says that the lock was handed on.
func (p *progress) released(lease *fairlock.Lease) {
	p.say("%q released after %v", lease.Name(), time.Since(p.began).Round(time.Millisecond))
}

func (p *progress) say(format string, args ...any) {
	if p.verbose {
		exit.Complain(p, fmt.Errorf(format, args...))
	}
}

// How to follow the waiting.
const (
	unasked  = time.Second     // after this time a terminal shows it unasked
	redraw   = time.Second     // how often a terminal updates the time
	lookOut  = 5 * time.Second // how often to look who holds the lock
	lookDown = 500             // from this place on not: an inspection reads the whole line
)

// follower shows how one call moves through the line.
type follower struct {
	*progress
	locker fairlock.Interface
	name   string
	plain  bool
	queued func(place int) // nil: nobody watches

	places  chan int // the latest place
	ctx     context.Context
	stop    context.CancelFunc // ends ctx
	stopped chan struct{}

	place      int
	looked     time.Time // when the holder was last looked up
	lookedFrom int       // the place at that time
	holder     string
	since      time.Time // since when the holder has the lock, as far as we know
	said       string    // the last line said of a holder and a place
}

// follow begins to show how r waits. The caller must call end.
func (p *progress) follow(locker fairlock.Interface, r *Command) *follower {
	f := &follower{
		progress: p, locker: locker, name: r.Name, plain: r.Plain,
		places: make(chan int, 1), stopped: make(chan struct{}),
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	if !p.live && !p.verbose || r.Wait == 0 {
		close(f.stopped)
		return f
	}
	f.queued = f.moved
	go f.run()
	return f
}

// moved notes a place. The goroutine that waits for the lock calls moved, so it never blocks.
func (f *follower) moved(place int) {
	select {
	case <-f.places: // an outdated place
	default:
	}
	f.places <- place
}

// end erases the line. Neither a reader nor the server holds it up.
func (f *follower) end() {
	f.stop()
	<-f.stopped
}

func (f *follower) run() {
	defer close(f.stopped)
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case <-f.ctx.Done():
			f.clear()
			return
		case f.place = <-f.places:
		case <-tick.C:
		}
		if f.place > 0 && (f.verbose || time.Since(f.began) >= unasked) && (!f.live || attended(int(f.out.Fd()))) {
			f.show()
		}
	}
}

// show draws what is new.
func (f *follower) show() {
	if f.place <= lookDown && (f.place != f.lookedFrom || time.Since(f.looked) >= lookOut) {
		f.look()
	}
	if f.ctx.Err() != nil { // so look was not told who holds the lock
		return
	}
	if now := fmt.Sprint(f.place, f.holder); f.live || now != f.said {
		f.said = now
		f.draw(f.text())
	}
}

// look finds out who holds the lock.
func (f *follower) look() {
	f.looked, f.lookedFrom, f.holder = time.Now(), f.place, ""
	if state := stateOf(f.ctx, f.locker, f.name); state != nil && state.Holder != nil {
		f.holder, f.since = nickname(state.Holder), f.looked.Add(-state.Holder.Held)
	}
}

func (f *follower) text() string {
	text := fmt.Sprintf("fairlock: waiting for %q", f.name)
	if f.live {
		text += fmt.Sprintf(" for %v", time.Since(f.began).Round(time.Second))
	}
	if !f.plain {
		text += fmt.Sprintf(": place %d in line", f.place)
	}
	if f.holder != "" {
		text += fmt.Sprintf("; %s has had it for %v", f.holder, time.Since(f.since).Round(time.Second))
	}
	return text
}
