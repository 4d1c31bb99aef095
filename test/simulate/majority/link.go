package majority

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fairlock/locks/test/simulate/stage"
)

// link is the network between one client and one node. It carries whole requests, replies and
// messages. Each has its own delay, drawn from the seed, the content and the instant. World.mu
// guards all fields.
type link struct {
	w        *World
	c        *client
	n        *node
	leads    *link   // where the node's name leads: here, or to another node
	conns    []*conn // open at the client's end, oldest first
	up, down gate
	weather  weather
	troubled time.Time // when a fault last affected the link
	hooked   int       // to how many of the next requests the client's hook does something
	hooking  int       // how many requests its hook keeps now
}

// weather is how likely each thing is to happen to one request or message.
type weather struct {
	loseRequest, loseReply, late, slow float64
	loseMessage, lateMessage           float64
}

// gate lets the frames of one direction through, or keeps them until the gate opens.
type gate struct {
	holds   int
	backlog []func()
}

func (g *gate) pass(f func()) {
	if g.holds > 0 {
		g.backlog = append(g.backlog, f)
		return
	}
	f()
}

// conn is a client's end of a connection, and what the node and the network know of it.
type conn struct {
	*stage.Conn
	link *link
	via  *link // whose name led here

	// Guarded by World.mu.
	stage.Session
	up, down time.Time // when the last frame in each direction arrives: frames keep their order
	mute     bool      // nothing reaches the client any more
	flying   int       // requests without an answer so far
	left     time.Time // when its client closed it
}

func (c *conn) fail(err error) {
	c.link.w.history.Note(c.link.c.name, "has a connection to %s broken: %v", c.link.n.name, err)
	c.Fail(err)
}

// trouble notes that a fault affects the link now.
func (l *link) trouble() { l.troubled = time.Now() }

// hold closes the gates of the given directions; release opens them again.
func (l *link) hold(up, down bool) (release func()) {
	count := func(n int) {
		if up {
			l.up.holds += n
		}
		if down {
			l.down.holds += n
		}
		l.trouble()
	}
	count(1)
	return func() {
		count(-1)
		l.drain(&l.up)
		l.drain(&l.down)
	}
}

// drain releases what an open gate has kept, one frame after the other.
func (l *link) drain(g *gate) {
	if g.holds > 0 {
		return
	}
	backlog := g.backlog
	g.backlog = nil
	for i, f := range backlog {
		d := time.Duration(i+1)*(7*time.Microsecond+131) + time.Duration(l.c.id) + 31*time.Duration(l.n.i) //nolint:gosec // an outage of all ends at one instant
		l.w.after(d, func() { g.pass(f) })
	}
}

// able returns since when nothing has disturbed the link and its node, and false while something
// does.
func (l *link) able() (since time.Time, ok bool) {
	quiet := l.leads == l && l.up.holds == 0 && l.down.holds == 0 && !l.c.crashed && l.weather == weather{} && l.hooking == 0
	return stage.Later(l.troubled, l.n.troubled), quiet && l.n.works()
}

// send takes a request from the client.
func (l *link) send(c *conn, args []string) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if strings.EqualFold(args[0], "HELLO") {
		c.Arrive(l.n.Execute(c, args))
		return
	}
	r := l.w.draw(l.c.id, uint64(8*c.via.n.i+l.n.i), stage.Contents(args), 1) //nolint:gosec // it is small
	c.flying++
	l.w.after(stage.Arrival(l.w.latency(r), &c.up), func() { l.up.pass(func() { l.n.takes(func() { l.reaches(c, args, r) }) }) })
}

// How late a request is executed at most. The kernel goes on sending the last bytes of a closed
// connection for as long. The mark of a ticket that has left lives for a minute, by the node's
// clock.
const latest = 50 * time.Second

// reaches handles a request that has reached the node.
func (l *link) reaches(c *conn, args []string, r *rand.Rand) {
	w, p := l.w, l.weather
	if c.Gone || l.n.down || l.c.crashed || !c.left.IsZero() && time.Since(c.left) > latest {
		return
	}
	happens := func(what string, probability float64) bool {
		if probability == 0 || r.Float64() >= probability || l.n.Verb(args) == "" {
			return false
		}
		w.fault(what, "%s-%s: %s", l.c.name, l.n.name, l.n.Verb(args))
		return true
	}
	switch {
	case happens("lost request", p.loseRequest):
		l.silence(c, r)
		return
	case happens("late request", p.late):
		l.silence(c, r)
		life := l.n.life
		w.after(stage.Span(r, 300*time.Millisecond, latest), func() {
			l.n.takes(func() {
				if l.n.life == life && !l.n.down { // a restart empties the node's buffers
					l.execute(c, args, "late: ")
				}
			})
		})
		return
	}
	reply := l.execute(c, args, "")
	if happens("lost reply", p.loseReply) {
		l.silence(c, r)
		return
	}
	d := w.latency(r)
	if l.n.slow > 0 {
		d += stage.Span(r, 0, l.n.slow)
	}
	if happens("slow reply", p.slow) {
		d += stage.Span(r, 50*time.Millisecond, 4*time.Second)
	}
	w.after(stage.Arrival(d, &c.down), func() {
		l.down.pass(func() {
			if !c.mute {
				c.flying--
				c.Arrive(reply)
			}
		})
	})
}

// execute has the node execute a request while the referee watches.
func (l *link) execute(c *conn, args []string, how string) []byte {
	verb := l.n.Verb(args)
	reply := l.n.Execute(c, args)
	l.w.requests++
	l.w.history.Note(l.c.name, "%s: %s%s %s", l.n.name, how, verb, transcript(verb, args, reply))
	if verb != "" {
		l.w.referee.after(l, verb, args, reply)
	}
	out := l.n.Outbox
	l.n.Outbox = nil
	for _, m := range out {
		m.To.link.tell(m)
	}
	return reply
}

// transcript returns a request and its reply for the history.
func transcript(verb string, args []string, reply []byte) string {
	if verb != "" {
		n, _ := strconv.Atoi(args[2])
		var locks strings.Builder
		for _, key := range args[3 : 3+n] {
			if strings.Contains(key, ":lock:") && !strings.Contains(key, ":left:") {
				locks.WriteString(nameOf(key))
			}
		}
		args = append([]string{locks.String()}, args[3+n:]...)
	}
	if verb == "" && len(args) > 2 { // a script that the node does not have, whatever it is
		args = args[:2]
	}
	if verb == "beat" { // its tickets have no order
		return strings.Join(append(args[:4:4], stage.Sorted(args[4:])...), " ")
	}
	answer := strings.ReplaceAll(strings.TrimSuffix(string(reply), "\r\n"), "\r\n", " ")
	return strings.Join(args, " ") + " -> " + answer[:min(len(answer), 600)]
}

// tell carries a message to a subscriber.
func (l *link) tell(m stage.Message[*conn]) {
	w, p := l.w, l.weather
	if alter := w.plan.Break.Message; alter != nil {
		m.Payload = alter(m.Payload)
	}
	frame := stage.Push(m.To.Peer.Resp3, "message", m.Channel, m.Payload)
	r := w.draw(l.c.id, uint64(l.n.i), stage.Contents([]string{m.Payload}), 2) //nolint:gosec // it is small
	happens := func(what string, probability float64) bool {
		if probability == 0 || r.Float64() >= probability {
			return false
		}
		w.fault(what, "%s-%s: %s", l.c.name, l.n.name, m.Payload)
		return true
	}
	d := w.latency(r)
	if l.n.slow > 0 {
		d += stage.Span(r, 0, l.n.slow)
	}
	if happens("lost message", p.loseMessage) {
		return
	}
	if happens("late message", p.lateMessage) {
		d += stage.Span(r, 20*time.Millisecond, 8*time.Second)
	} else {
		d = stage.Arrival(d, &m.To.down)
	}
	w.after(d, func() {
		l.down.pass(func() {
			if !m.To.mute {
				w.history.Note(l.c.name, "%s: hears %s", l.n.name, m.Payload)
				m.To.Arrive(frame)
			}
		})
	})
}

// keepAlive is after how long a client without timeouts learns at the latest that a connection is
// dead: its system asks the node's.
const keepAlive = 4 * time.Minute

// silence stops all replies on a connection. Sometimes the client is told.
func (l *link) silence(c *conn, r *rand.Rand) {
	c.mute = true
	if r.IntN(2) == 0 {
		l.w.after(stage.Span(r, time.Millisecond, 50*time.Millisecond), func() { c.fail(io.EOF) })
	} else if l.c.endless {
		l.w.after(stage.Span(r, keepAlive/10, keepAlive), func() { c.fail(syscall.ETIMEDOUT) })
	}
}

// cut breaks connections. The client notices at once, and the node sometimes only after a while.
// Requests under way may still be executed.
func (l *link) cut(r *rand.Rand, conns ...*conn) {
	l.trouble()
	for _, c := range conns {
		c.mute = true
		d := l.w.latency(r)
		if r.IntN(4) == 0 {
			d = stage.Span(r, time.Second, 20*time.Second)
		}
		l.w.after(d, func() { l.n.HangUp(c) })
		l.w.after(l.w.latency(r), func() { c.fail(stage.ErrReset) })
	}
}

// lead has the name of the link's node lead to where the other link does, as a name that is changed
// in DNS does, and ends the connections by that name.
func (l *link) lead(r *rand.Rand, to *link) {
	var by []*conn
	for _, c := range l.leads.conns {
		if c.via == l {
			by = append(by, c)
		}
	}
	l.leads.cut(r, by...)
	l.leads = to
	l.trouble()
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

// closed notes that the client closed its end. The news travels to the node like everything else.
func (l *link) closed(c *conn) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	c.left = time.Now()
	if i := slices.Index(l.conns, c); i >= 0 {
		l.conns = slices.Delete(l.conns, i, i+1)
	}
	if l.c.power {
		return // keep-alive ends the connection: see client.crash
	}
	l.w.after(l.w.plan.Latency, func() { l.up.pass(func() { l.n.takes(func() { l.n.HangUp(c) }) }) })
}

// dial opens a connection for the client. Neither the dial nor the handshake takes any time:
// go-redis holds a mutex while it dials a subscription, and a bubble's clock stands still while a
// goroutine waits for a mutex. For the same reason a dial fails where it would hang.
func (l *link) dial(context.Context, string, string) (net.Conn, error) {
	w, via := l.w, l
	w.mu.Lock()
	defer w.mu.Unlock()
	l = via.leads
	err := error(syscall.ECONNREFUSED)
	switch {
	case l.n.down, l.c.crashed && !l.c.power:
	case l.up.holds > 0, l.down.holds > 0, l.c.crashed, l.n.hangs > 0:
		err = os.ErrDeadlineExceeded
	default:
		c := &conn{link: l, via: via, Session: stage.Session{Peer: stage.NewPeer()}}
		c.Conn = stage.NewConn(func(args []string) { l.send(c, args) }, func() { l.closed(c) })
		l.conns = append(l.conns, c)
		w.history.Note(l.c.name, "connects to %s", l.n.name)
		return c, nil
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
}
