package quorum

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/ballot"
	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/pubsub"
)

// beatEvery is how often waiters say that they live.
const beatEvery = lua.Liveness / 3

const (
	soonest = 100 * time.Millisecond // between two looks at a lock that is free and not granted
)

// line is the calls of this process that wait for one lock. It stays until its alarm goes off and
// finds it empty: whoever locks the same name again and again needs no alarm each time. All of it
// is guarded by Locker.mu.
type line struct {
	keys  lua.Keys
	calls map[*call]struct{}
	alarm *engine.Alarm
}

// enqueue has the call take part in the heartbeats of its line, and asks again when the vote of a
// node may have ended. Locker.mu must be held.
func (l *Locker) enqueue(c *call, left time.Duration) {
	at, now := l.lines[c.Keys.Record()], time.Now()
	if at == nil {
		at = &line{keys: c.Keys, calls: make(map[*call]struct{})}
		at.alarm = engine.NewAlarm(now.Add(beatEvery), func() { l.look(at) })
		l.lines[c.Keys.Record()] = at
		l.listen()
	}
	at.calls[c] = struct{}{}
	at.alarm.By(now.Add(max(left+rules.AfterEnd, soonest)))
}

// dequeue takes the call out of its line. Locker.mu must be held.
func (l *Locker) dequeue(c *call) {
	if at := l.lines[c.Keys.Record()]; at != nil {
		delete(at.calls, c)
	}
}

// inLine reports whether heartbeats are sent for the call. Locker.mu must be held.
func (l *Locker) inLine(c *call) bool {
	at := l.lines[c.Keys.Record()]
	if at == nil {
		return false
	}
	_, ok := at.calls[c]
	return ok
}

// look runs when the alarm goes off.
func (l *Locker) look(at *line) {
	l.core.Settings.Alarmed()
	l.mu.Lock()
	defer l.mu.Unlock()
	if engine.IsClosed(l.closing) {
		return
	}
	if len(at.calls) == 0 {
		delete(l.lines, at.keys.Record())
		return
	}
	at.alarm.WentOff()
	at.alarm.By(time.Now().Add(beatEvery))
	for c := range at.calls {
		c.Expire(time.Now())
		l.judge(c)
	}
	for i := range l.nodes {
		l.beat(at, i, false)
	}
}

// beat sends the heartbeats of a line to a node: all of them, or those of calls that have a place
// there. Locker.mu must be held.
func (l *Locker) beat(at *line, i int, placed bool) {
	if !l.nodes[i].listens() {
		return
	}
	var calls []*call
	for c := range at.calls {
		if c.Stands(i) && (!placed || c.At(i) > 0) {
			calls = append(calls, c)
		}
	}
	if len(calls) > lua.MaxTickets { // a free vote is for the first ticket of the first part
		slices.SortFunc(calls, func(a, b *call) int {
			return cmp.Or(cmp.Compare(a.At(i), b.At(i)), cmp.Compare(a.ticket.Counter, b.ticket.Counter))
		})
	}
	if len(calls) == 0 {
		return
	}
	l.core.Go(func() {
		for some := range slices.Chunk(calls, lua.MaxTickets) { // the node does nothing else meanwhile
			if err := l.beatFor(at, i, some); err != nil {
				return
			}
		}
	})
}

// beatFor is the heartbeat of some calls of a line.
func (l *Locker) beatFor(at *line, i int, calls []*call) (err error) {
	node := l.nodes[i]
	l.mu.Lock()
	for _, c := range calls {
		c.Sent(i)
	}
	l.mu.Unlock()
	keys := []string{at.keys.Record(), at.keys.Queue(), at.keys.Waiters(), at.keys.Token(), l.nodeKey}
	args := append(make([]any, 0, 3+len(calls)), l.args.id, node.arg, l.args.most)
	for _, c := range calls {
		args = append(args, c.arg)
	}
	pair := rules.ClockPair{Sent: time.Now(), Session: node.sessionNow()}
	var s seen
	err = lua.ErrCutShort
	defer func() {
		pair.At = s.now
		l.beatEnded(at, i, calls, &s, err, pair)
	}()
	var reply []any
	if reply, err = node.run(context.Background(), beatScript, keys, args...); err == nil {
		s, err = decodeSeen(reply)
	}
	return err
}

// beatEnded takes in what came of a beat for those calls.
func (l *Locker) beatEnded(at *line, i int, calls []*call, s *seen, err error, pair rules.ClockPair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var missed []*call
	for _, c := range calls {
		c.Ended(i, false) // a beat that comes late puts nobody in line
		if err == nil && c.Phase == rules.Waiting {
			l.beaten(c, i, s, pair)
		}
		if c.Phase == rules.Granted && c.Missed(i, c.renewed) {
			missed = append(missed, c) // nobody strives for a node while a request to it is under way
		}
	}
	l.strive(i, missed...)
	if err == nil && len(at.calls) > 0 {
		at.alarm.By(time.Now().Add(max(s.left+rules.AfterEnd, soonest)))
	}
}

// beaten takes in what the answer to a beat says of a call. Locker.mu must be held.
func (l *Locker) beaten(c *call, i int, s *seen, pair rules.ClockPair) {
	now, mine := time.Now(), s.holder == c.ticket.String()
	if !mine {
		c.Sees(s.holder, s.left, now)
	}
	switch {
	case mine:
		a := &ballot.Answer{Status: ballot.Granted, Now: s.now, Token: s.token, Since: s.since, Left: s.left, Place: c.At(i), Older: s.older}
		c.Answered(i, a, pair, now)
	case s.missing[c.ticket.String()]:
		if c.PassedOver(i, s.now) {
			l.core.Settings.Observe(engine.Event{Kind: engine.PassedOver, Context: context.Background(), Name: c.Name})
		}
		c.Missing(i)
	default:
		c.Stood(i, pair)
	}
	l.judge(c)
}

// listen subscribes at all nodes, when the first call has to wait. Locker.mu must be held.
func (l *Locker) listen() {
	if l.listens {
		return
	}
	l.listens = true
	for i, node := range l.nodes {
		node.hub.Listen(node.channel, &pubsub.Listener{
			Up:      func() { l.up(i) },
			Message: func(payload string) { l.message(i, payload) },
		})
	}
}

// up asks again for all that waits: messages may have gone unheard.
func (l *Locker) up(i int) {
	node := l.nodes[i]
	node.mu.Lock()
	node.session++
	node.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.lines {
		l.beat(at, i, false)
	}
	l.strive(i, l.lacking(i)...) // who holds waits for a vote, too
}

// lacking are the decided calls that have not got a node's vote, or have not had it renewed.
// Locker.mu must be held.
func (l *Locker) lacking(i int) (calls []*call) {
	for _, c := range l.calls {
		if c.Phase == rules.Granted && (!c.Has(i, time.Now()) || c.Missed(i, c.renewed)) {
			calls = append(calls, c)
		}
	}
	return calls
}

// returned turns to a node that answers again. Who stands there learns by a heartbeat what it
// missed: thousands of requests at once would have the node silent again. The others ask.
func (l *Locker) returned(i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.strive(i, l.lacking(i)...)
	for _, at := range l.lines {
		l.beat(at, i, true)
	}
	for _, c := range l.calls {
		if c.Phase == rules.Waiting {
			if !l.inLine(c) || !c.Stands(i) || c.At(i) == 0 {
				c.Ask(i)
			}
			l.judge(c)
		}
	}
}

func (n *node) sessionNow() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.session
}
