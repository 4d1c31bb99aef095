package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/simulate/stage"
)

// damaged is the lock to which strangers have rights. Nothing is judged of this lock, and no damage
// to it may affect the others.
const damaged = "z"

// stranger is somebody with rights to one lock's keys and channels, and to no other's. He is active
// for as long as the traffic lasts, also in calm weather, because the users of other locks must not
// notice him.
func (w *World) stranger() {
	r := rand.New(rand.NewPCG(w.plan.Seed, 30))
	for w.wait(stage.Span(r, 500*time.Millisecond, 8*time.Second)) {
		w.mu.Lock()
		switch p := r.IntN(100); {
		case p < 20:
			w.tears(r)
		case p < 55:
			w.forges(r)
		default:
			w.damages(r)
		}
		w.mu.Unlock()
	}
}

// tears has a client's next grant come in two parts. mu must be held.
func (w *World) tears(r *rand.Rand) {
	if c := w.victim(r); c != nil && w.plan.brings(Torn) {
		c.link.tears = 1
	}
}

// torn delivers a grant in two parts, the second of them late. It is as if a network segment ended
// within the message, and the next segment was lost and sent again.
func (l *link) torn(m message, frame []byte, r *rand.Rand) bool {
	if _, quiet := l.able(); l.tears == 0 || !quiet || m.To.mute || !strings.HasPrefix(m.Payload, "grant ") {
		return false
	}
	w := l.w
	field := strings.Fields(m.Payload)
	lk := w.referee.locks[nameOf(field[len(field)-1])]
	if len(field) != 6 || lk == nil {
		return false
	}
	token, _ := strconv.ParseInt(field[3], 10, 64)
	g := lk.grants[token]
	if g == nil || g.ticket != field[4] {
		return false
	}
	l.tears--
	gap := stage.Span(r, 600*time.Millisecond, 1200*time.Millisecond)
	l.tearing = time.Now().Add(gap + 2*tornFor)
	at := 1 + r.IntN(len(frame)-2)
	w.fault("torn message", "%s: after %d bytes, for %v", l.owner.name, at, gap)
	first := stage.Arrival(w.latency(r), &m.To.down)
	m.To.down = m.To.down.Add(gap)
	part := func(d time.Duration, f func()) {
		w.after(d, func() {
			l.down.pass(m.To, func() {
				if !m.To.mute && !l.dead {
					f()
				}
			})
		})
	}
	part(first, func() {
		m.To.Arrive(frame[:at])
		m.To.torn = true
	})
	part(first+gap, func() {
		w.history.Note(l.owner.name, "hears the rest of %s", m.Payload)
		m.To.torn = false
		m.To.Arrive(append(slices.Clone(frame[at:]), m.To.behind...))
		m.To.behind = nil
	})
	sent := time.Now()
	w.after(first+gap+tornFor, func() { w.referee.unheard(l, lk, g, sent) })
	return true
}

// tornFor is how long after its second part a torn grant is noticed: the client makes the broken
// subscription again, and then every call asks.
const tornFor = 1300 * time.Millisecond

// unheard judges that a client that nothing else disturbed has learned of its grant by now (4).
func (r *referee) unheard(l *link, lk *lock, g *grant, sent time.Time) {
	c := l.owner
	k := c.called(lk.name, g.ticket)
	able, quiet := l.able()
	if g.believed || k == nil || k.done || k.inside > 0 || k.kept > 0 || !quiet || able.After(sent) || c.closing || c.crashed || c.paused != nil {
		return
	}
	if is := r.w.server.read(lk.keys); is.token == g.token && is.holds[g.ticket] > is.ms {
		r.violated(4, "%s: %s has not noticed a grant that came in two parts %v ago", lk.name, c.name, time.Since(sent))
	}
}

// forges publishes a forged message to a client. mu must be held.
func (w *World) forges(r *rand.Rand) {
	lk := w.referee.locks[w.names[r.IntN(len(w.names))]]
	is := w.server.read(lk.keys)
	var victims []string
	for _, p := range is.line {
		victims = append(victims, p.ticket)
	}
	for ticket := range is.holds {
		victims = append(victims, ticket)
	}
	slices.Sort(victims)
	if len(victims) == 0 || !w.plan.brings(Forged) {
		return
	}
	ticket := victims[r.IntN(len(victims))]
	part := strings.Split(ticket, ":")
	us, own := is.at.UnixMicro(), keysOf(w.plan.prefix(), damaged).record
	payload := []string{
		fmt.Sprintf("grant %d 3000 %d %s %s", us, us+1, ticket, own),
		fmt.Sprintf("grant %d 3000 %d %s %s", us, int64(1)<<53-1, ticket, own),
		fmt.Sprintf("grant %d 3000 %d %s:%s:30000::%s %s", us, us+1, part[0], part[1], "another", lk.keys.record),
		fmt.Sprintf("grant %d 3000 %d %s:%d:30000:: %s", us, us+1, part[0], 1_000_000+r.IntN(1000), lk.keys.record),
		fmt.Sprintf("forced %d %s %s", max(is.token, 1), ticket, own),
		fmt.Sprintf("forced %d %s:%s:30000::%s %s", max(is.token, 1), part[0], part[1], "another", lk.keys.record),
		fmt.Sprintf("evicted %s %s", ticket, own),
		fmt.Sprintf("evicted %s:%s:30000::%s %s", part[0], part[1], "another", lk.keys.record),
		fmt.Sprintf("hint %s %s", ticket, own),
		"grant me\x1b[31m a lock\r\n", "", "forced -1 :::: ",
	}[r.IntN(12)]
	heard := w.server.Subscribers(w.channel(ticket))
	for _, c := range heard {
		w.fault("forged message", "%q", payload)
		c.link.tell(message{To: c, Channel: w.channel(ticket), Payload: payload})
	}
}

// damages writes something into the keys of the damaged lock. mu must be held.
func (w *World) damages(r *rand.Rand) {
	if !w.plan.brings(Damaged) {
		return
	}
	k := keysOf(w.plan.prefix(), damaged)
	now := w.server.now()
	us, later := strconv.FormatInt(now.UnixMicro(), 10), strconv.FormatInt(now.Add(15*time.Second).UnixMilli(), 10)
	ticket := w.somebody(r)
	holds, _ := w.server.Mini.HKeys(k.record)
	hold := "a:b"
	for _, field := range holds {
		if strings.Contains(field, ":") {
			hold = field
		}
	}
	all := [][]string{
		{"HSET", k.record, "lease", "x"},
		{"HSET", k.record, "lease", "x"},
		{"HSET", k.record, "lease", "1e300"},
		{"HSET", k.record, "a:b", "c"},
		{"HSET", k.record, hold, "junk"},
		{"HSET", k.record, "since", "-"},
		{"HSET", k.record, "token", "x"},
		{"HSET", k.record, "owner", "\x1b[31m"},
		{"HSET", k.record, "kept", "now"},
		{"HDEL", k.record, "owner"},
		{"PERSIST", k.record},
		{"RPUSH", k.queue, "junk"},
		{"LPUSH", k.queue, us + ":" + ticket},
		{"RPUSH", k.queue, "9007199254740993:a:b:c:d"},
		{"ZADD", k.waiters, later, ticket},
		{"ZADD", k.waiters, later, "nobody"},
		{"ZADD", k.waiters, "-" + later, "?"},
		{"ZADD", k.waiters, "-" + later, "!" + ticket},
		{"ZADD", k.waiters, "-inf", "?" + stage.ClientOf(ticket)},
		{"ZADD", k.waiters, "inf", "~"},
		{"SET", k.token, "x"},
		{"SET", k.token, "9007199254740991"},
		{"SET", k.record, "x"},
		{"SET", k.queue, "x"},
		{"SADD", k.waiters, "x"},
		{"DEL", k.record},
		{"DEL", k.queue},
		{"DEL", k.waiters},
		{"DEL", k.token},
		{"DEL", k.record, k.queue, k.waiters, k.token},
		{"NOPERM"},
		{"NOPERM"},
		{"NOPERM"},
	}
	command := all[r.IntN(len(all))]
	w.fault("damaged key", "%q", command)
	if command[0] == "NOPERM" {
		w.server.forbids = true
		w.after(stage.Span(r, time.Second, 40*time.Second), func() { w.server.forbids = false })
		return
	}
	w.dispatch(command)
	// With a deadline of its own, the ticket gets this lock at the next release, which tells its
	// client so.
	if command[0] == "LPUSH" {
		w.dispatch([]string{"ZADD", k.waiters, later, ticket})
	}
}

// dispatch has the server execute a command that no client sent. mu must be held.
func (w *World) dispatch(command []string) {
	w.server.Mini.SetTime(w.server.now())
	w.server.Dispatch(stage.NewPeer(), command)
	out := w.server.Outbox
	w.server.Outbox = nil
	for _, m := range out {
		m.To.link.tell(m)
	}
}

// somebody returns a ticket that waits for one of the other locks. A stranger can name it: a
// client's id and its counter are no secret.
func (w *World) somebody(r *rand.Rand) string {
	for _, name := range w.names {
		if line := w.server.read(w.referee.locks[name].keys).line; len(line) > 0 {
			return line[r.IntN(len(line))].ticket
		}
	}
	return "nobody:1:30000::"
}

// heals deletes the damaged lock. mu must be held.
func (w *World) heals() {
	w.server.forbids = false
	k := keysOf(w.plan.prefix(), damaged)
	w.dispatch([]string{"DEL", k.record, k.queue, k.waiters, k.token})
}

// usesDamaged uses the damaged lock, for what it is worth.
func (a *actor) usesDamaged() {
	ctx, cancel := context.WithTimeout(context.Background(), a.upTo(4*time.Second))
	defer cancel()
	began := time.Now()
	until, _ := ctx.Deadline()
	lease, err := a.c.locker.Lock(ctx, damaged, fairlock.Note(fmt.Sprintf("%d.damaged", a.id)))
	a.w.referee.returned(a.c, "lock of the damaged", began, until.Sub(began))
	if err != nil {
		return
	}
	if a.sleep(a.upTo(15 * time.Second)) {
		_ = lease.Unlock(ctx)
	}
}

// evicted notes that a script took a ticket out of a line.
func (r *referee) evicted(lk *lock, ticket string) {
	if c := r.w.byID(stage.ClientOf(ticket)); c != nil {
		if k := c.called(lk.name, ticket); k != nil {
			k.evicted = first(k.evicted, time.Now())
		}
	}
}

// evicts reports whether the request evicts that ticket.
func (l *look) evicts(ticket string) bool {
	_, victim, _ := strings.Cut(l.argv[3], ":")
	return victim == ticket
}
