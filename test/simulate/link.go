package simulate

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fairlock/locks/test/simulate/stage"
)

// link is the network between one client and the server. It carries whole requests, replies and
// messages. Each has its own delay, drawn from the seed, the content and the instant. Which
// goroutine came first does not matter. World.mu guards all fields.
type link struct {
	w        *World
	owner    *client
	conns    []*conn // open at the client's end, oldest first
	up, down gate
	dead     bool // the client's process is gone
	silent   bool // and the server was not told: the client's machine lost its power
	weather  weather
	tears    int       // how many of the next grants come in two parts
	tearing  time.Time // until then a torn grant may hold up other messages
	proxied  int       // how many of the next requests a proxy answers
	hooked   int       // to how many of the next requests the client's hook does something
	hooking  int       // how many requests its hook keeps now
	refused  time.Time // when a proxy last answered a renewal
	troubled time.Time // when a fault last affected the link
}

// weather is how likely each thing is to happen to one request or message.
type weather struct {
	loseRequest, loseReply, late, double, slow float64
	loseMessage, doubleMessage, lateMessage    float64
	refuse                                     float64
}

// gate lets the frames of one direction through, or keeps them until the gate opens.
type gate struct {
	holds   int
	backlog []kept
}

type kept struct {
	c *conn
	f func()
}

// pass runs f now, or later when the gate opens.
func (g *gate) pass(c *conn, f func()) {
	if g.holds > 0 {
		g.backlog = append(g.backlog, kept{c, f})
		return
	}
	f()
}

// hold closes the gates of the given directions; release opens them again.
func (l *link) hold(up, down bool) (release func()) {
	count := func(n int) {
		if up {
			l.up.holds += n
		}
		if down {
			l.down.holds += n
		}
	}
	count(1)
	l.trouble()
	return func() {
		count(-1)
		l.trouble()
		l.drain(&l.up, func(c *conn, at time.Time) { c.up = at })
		l.drain(&l.down, func(c *conn, at time.Time) { c.down = at })
	}
}

// drain releases what an open gate has kept, one frame after the other.
func (l *link) drain(g *gate, arrives func(*conn, time.Time)) {
	if g.holds > 0 {
		return
	}
	backlog := g.backlog
	g.backlog = nil
	for i, k := range backlog {
		d := time.Duration(i+1)*(7*time.Microsecond+131) + time.Duration(l.owner.id) //nolint:gosec // an outage of all ends at one instant
		arrives(k.c, time.Now().Add(d))
		l.w.after(d, func() { g.pass(k.c, k.f) })
	}
}

// trouble notes that a fault affects the link now.
func (l *link) trouble() { l.troubled = time.Now() }

// able returns since when nothing has disturbed the link, and false while something does.
func (l *link) able() (since time.Time, ok bool) {
	quiet := l.up.holds == 0 && l.down.holds == 0 && !l.dead && l.weather == weather{} && l.hooking == 0 && !l.w.server.down && l.w.slow == 0 && l.w.server.mood == ""
	if l.w.troubled.After(l.troubled) {
		return l.w.troubled, quiet
	}
	return l.troubled, quiet
}

// latency draws how long a frame is under way.
func (w *World) latency(r *rand.Rand) time.Duration {
	return w.plan.Latency/4 + time.Duration(r.Int64N(int64(w.plan.Latency)))
}

// flight is a request on its way.
type flight struct {
	c    *conn
	args []string
	r    *rand.Rand
}

// send takes a request from the client.
func (l *link) send(c *conn, args []string) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if strings.EqualFold(args[0], "HELLO") {
		c.Arrive(l.w.server.Execute(c, args))
		return
	}
	f := &flight{c, args, l.w.draw(l.owner.id, stage.Contents(args), 1)}
	c.flying++
	l.w.after(stage.Arrival(l.w.latency(f.r), &c.up), func() { l.up.pass(c, func() { l.reaches(f) }) })
}

// late is how long a kernel goes on sending the last bytes of a closed connection.
const late = time.Minute

// latest is how late a request is executed at most.
const latest = 25 * time.Second

// reaches handles a request that has reached the server.
func (l *link) reaches(f *flight) {
	c, w, p := f.c, l.w, l.weather
	if c.Gone || w.server.down || l.dead || !c.left.IsZero() && time.Since(c.left) > late {
		return
	}
	happens := func(what string, probability float64) bool {
		if !stage.Evaluates(f.args) && what != "lost request" && what != "lost reply" {
			return false
		}
		if probability == 0 || f.r.Float64() >= probability {
			return false
		}
		w.fault(what, "%s: %s", l.owner.name, w.server.Verb(f.args))
		return true
	}
	era := w.era
	again := func() {
		if w.era == era { // a restart empties the server's buffers
			l.execute(f, "once more: ")
		}
	}
	switch {
	case happens("lost request", p.loseRequest):
		l.silence(c, f.r)
		return
	case happens("late request", p.late):
		l.silence(c, f.r)
		w.after(stage.Span(f.r, 300*time.Millisecond, latest), again)
		return
	}
	reply := l.answer(f)
	if happens("lost reply", p.loseReply) {
		if w.server.Verb(f.args) != "" && f.r.IntN(3) == 0 {
			w.after(stage.Span(f.r, time.Millisecond, 10*time.Second), again)
		}
		l.silence(c, f.r)
		return
	}
	if happens("doubled request", p.double) {
		w.after(stage.Span(f.r, 1, w.plan.Latency/5), again)
	}
	d := w.latency(f.r) + w.drag(f.r)
	if happens("slow reply", p.slow) {
		d += stage.Span(f.r, 50*time.Millisecond, 4*time.Second)
	}
	w.after(stage.Arrival(d, &c.down), func() {
		l.down.pass(c, func() {
			if !c.mute {
				c.flying--
				if c.reads() {
					l.delivered(f, reply)
				}
				c.hand(reply)
			}
		})
	})
}

// execute has the server execute a request while the referee watches.
func (l *link) execute(f *flight, how string) []byte {
	w := l.w
	verb := w.server.Verb(f.args)
	look := w.referee.before(l.owner, verb, f.args)
	reply := w.server.Execute(f.c, f.args)
	w.requests++
	w.history.Note(l.owner.name, "%s%s %s", how, verb, transcript(verb, f.args, reply))
	look.after(reply)
	out := w.server.Outbox
	w.server.Outbox = nil
	for _, m := range out {
		m.To.link.tell(m)
	}
	return reply
}

// tell carries a message to a subscriber.
func (l *link) tell(m message) {
	w, p := l.w, l.weather
	if alter := w.plan.Break.Message; alter != nil {
		m.Payload = alter(m.Payload)
	}
	frame := stage.Push(m.To.Peer.Resp3, "message", m.Channel, m.Payload)
	r := w.draw(l.owner.id, stage.Contents([]string{m.Payload}), 2)
	deliver := func(d time.Duration) {
		w.after(d, func() {
			l.down.pass(m.To, func() {
				if !m.To.mute && !l.dead {
					w.history.Note(l.owner.name, "hears %s", m.Payload)
					if m.To.reads() {
						l.heard(m.Payload)
					}
					m.To.hand(frame)
				}
			})
		})
	}
	happens := func(what string, probability float64) bool {
		if probability == 0 || r.Float64() >= probability {
			return false
		}
		w.fault(what, "%s: %s", l.owner.name, m.Payload)
		return true
	}
	d := w.latency(r) + w.drag(r)
	switch {
	case l.torn(m, frame, r):
		return
	case happens("lost message", p.loseMessage):
		return
	case happens("late message", p.lateMessage):
		deliver(d + stage.Span(r, 20*time.Millisecond, 8*time.Second))
		return
	case happens("doubled message", p.doubleMessage):
		deliver(d + stage.Span(r, 1, 20*time.Second))
	}
	d = stage.Arrival(d, &m.To.down)
	l.closesAt(m.Payload, d)
	deliver(d)
}

// keepAlive is after how long a client without timeouts learns at the latest that a connection is
// dead: its system asks the server's.
const keepAlive = 4 * time.Minute

// silence stops all replies on a connection. Sometimes the client is told.
func (l *link) silence(c *conn, r *rand.Rand) {
	c.mute = true
	if r.IntN(2) == 0 {
		l.w.after(stage.Span(r, time.Millisecond, 50*time.Millisecond), func() { c.fail(io.EOF) })
	} else if l.owner.endless {
		l.w.after(stage.Span(r, keepAlive/10, keepAlive), func() { c.fail(syscall.ETIMEDOUT) })
	}
}

// cut breaks a connection. The client notices at once, and the server sometimes only after a while.
// Requests under way may still be executed.
func (l *link) cut(c *conn, r *rand.Rand) {
	l.trouble()
	c.mute = true
	d := l.w.latency(r)
	if r.IntN(4) == 0 {
		d = stage.Span(r, time.Second, 20*time.Second)
	}
	l.w.after(d, func() { l.w.server.HangUp(c) })
	l.w.after(l.w.latency(r), func() { c.fail(stage.ErrReset) })
}

// cutAll breaks all present connections.
func (l *link) cutAll(r *rand.Rand) {
	for _, c := range l.conns {
		l.cut(c, r)
	}
}

// busy returns the connections with a request under way. The idle ones are interchangeable.
func (l *link) busy() (all []*conn) {
	for _, c := range l.conns {
		if c.flying > 0 && c.Channels == 0 {
			all = append(all, c)
		}
	}
	return all
}

// subscriptions returns the connections with a subscription.
func (l *link) subscriptions() (all []*conn) {
	for _, c := range l.conns {
		if c.Channels > 0 {
			all = append(all, c)
		}
	}
	return all
}

// closed notes that the client closed its end. The news travels to the server like everything else.
func (l *link) closed(c *conn) {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	c.left = time.Now()
	if i := slices.Index(l.conns, c); i >= 0 {
		l.conns = slices.Delete(l.conns, i, i+1)
	}
	if l.silent {
		return // keep-alive ends the connection: see client.crash
	}
	w.after(w.plan.Latency, func() { l.up.pass(c, func() { w.server.HangUp(c) }) })
}

// dial opens a connection for the client. Neither the dial nor the handshake takes any time:
// go-redis holds a mutex while it dials a subscription, and a bubble's clock stands still while a
// goroutine waits for a mutex. For the same reason a dial fails where it would hang.
func (l *link) dial(context.Context, string, string) (net.Conn, error) {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	err := error(syscall.ECONNREFUSED)
	switch {
	case w.server.down || l.dead && !l.silent:
	case l.up.holds > 0 || l.down.holds > 0 || l.dead:
		err = os.ErrDeadlineExceeded
	default:
		c := newConn(l)
		l.conns = append(l.conns, c)
		w.history.Note(l.owner.name, "connects")
		return c, nil
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
}
