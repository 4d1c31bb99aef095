package quorum

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// grace is how long an Unlock waits for the last nodes after a majority has answered. The next call
// of this process would otherwise find its own record there.
const grace = 2 * time.Millisecond

// renewal is a hold at one node.
type renewal struct {
	*call
	lua.Renewal
	decided bool
}

// Renew prolongs holds at all nodes, side by side. It returns when all have answered, or when a
// majority has and the others had 250 ms.
func (l *Locker) Renew(ctx context.Context, all []lua.Renewal) []lua.Renewed {
	holds := make([]renewal, 0, len(all))
	index := make([]int, 0, len(all))
	answers := make([]lua.Renewed, len(all))
	l.mu.Lock()
	for k, r := range all {
		if c := l.calls[r.Ticket.Counter]; c != nil && c.phase == rules.Granted {
			holds, index = append(holds, renewal{c, r, true}), append(index, k)
		} else {
			answers[k].Err = errVanished
		}
	}
	l.mu.Unlock()
	if len(holds) == 0 {
		return answers
	}
	l.round(func(i int) { l.renew(ctx, i, holds) })
	for k, h := range holds {
		answers[index[k]] = l.standing(h.call)
	}
	return answers
}

// Reassert asks once more.
func (l *Locker) Reassert(ctx context.Context, r lua.Renewal) lua.Renewed {
	return l.Renew(ctx, []lua.Renewal{r})[0]
}

// round does something at each node that is there, side by side, and returns when all are done, or
// when a majority is and the others had 250 ms.
func (l *Locker) round(at func(i int)) {
	done := make(chan struct{}, len(l.nodes))
	awaited := 0
	for i, node := range l.nodes {
		if node.away() {
			continue
		}
		awaited++
		l.core.Go(func() {
			at(i)
			done <- struct{}{}
		})
	}
	patience := time.NewTimer(silence)
	defer patience.Stop()
	late := patience.C
	for n := range awaited {
		select {
		case <-done:
		case <-late:
			if n >= l.need() {
				return
			}
			late = nil
			<-done
		}
	}
}

func (l *Locker) need() int { return len(l.nodes)/2 + 1 }

// renew sends one request for all holds to one node.
func (l *Locker) renew(ctx context.Context, i int, holds []renewal) {
	keys := make([]string, 1, 1+5*len(holds))
	keys[0] = l.nodeKey()
	args := []any{l.core.ID, l.channels(), l.set, l.most.Milliseconds()}
	l.mu.Lock()
	holds = slices.DeleteFunc(slices.Clone(holds), func(h renewal) bool { // it has been given back meanwhile
		return h.decided && h.phase != rules.Granted || !h.decided && h.phase != rules.Waiting
	})
	if len(holds) == 0 {
		l.mu.Unlock()
		return
	}
	for _, h := range holds {
		g := &h.legs[i]
		h.nodes[i].open++
		h.nodes[i].asked = true
		var till lua.Micros
		if h.Until > 0 && g.since > 0 {
			till = g.since + h.Until - h.Since
		}
		keys = append(keys, h.Keys.Record(), h.Keys.Queue(), h.Keys.Waiters(), h.Keys.Token(), mark(h.Keys, h.ticket))
		args = append(args, h.ticket.String(), h.Token, h.Lease.Milliseconds(), int64(till)/1000, decimal(max(h.place, 1)), h.Depth, h.decided)
	}
	l.mu.Unlock()
	sent := time.Now()
	reply, err := l.nodes[i].run(ctx, renewScript, keys, args...)
	if err == nil && len(reply) != len(holds) {
		err = wrongReply("renew", reply)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, h := range holds {
		n := &h.nodes[i]
		n.open--
		n.lost = n.lost || lua.Unanswered(err)
		if err != nil {
			continue
		}
		left, ok := reply[k].(int64)
		if !ok {
			continue
		}
		h.renewed(i, ms(left), h.Token, sent)
	}
}

// renewed takes in for how long a node has the hold: not at all, if left is not positive.
func (c *call) renewed(i int, left time.Duration, token int64, sent time.Time) {
	g := &c.legs[i]
	if left <= 0 {
		g.Phase = rules.Waiting
		return
	}
	g.Phase, g.known = rules.Granted, max(g.known, token)
	if t := (rules.Term{Span: left, Ends: sent.Add(left)}); t.Ends.After(g.term.Ends) {
		g.term = t
	}
}

// standing is what is left of a hold: for as long as a majority is trusted.
func (l *Locker) standing(c *call) lua.Renewed {
	l.mu.Lock()
	now := time.Now()
	var ends []time.Time
	var spans time.Duration
	unknown := 0
	for i := range c.legs {
		switch g := &c.legs[i]; {
		case g.counts(now):
			ends, spans = append(ends, g.term.TrustEnds()), max(spans, g.term.Span)
		case c.nodes[i].open > 0 || l.nodes[i].failing():
			unknown++
		}
	}
	slices.SortFunc(ends, func(x, y time.Time) int { return y.Compare(x) })
	hold, need := c.hold, c.need
	l.mu.Unlock()
	switch {
	case len(ends) >= need:
		trusted := ends[need-1]
		l.core.Shorten(hold, trusted)
		// The Core takes the margin off again.
		left := trusted.Sub(now)
		return lua.Renewed{Remaining: max(left+rules.Margin(left)*9/10, time.Millisecond)}
	case len(ends)+unknown >= need:
		return lua.Renewed{Err: errUnreachable}
	}
	return lua.Renewed{}
}

// strive gets a decided call the vote of one more node, or tells it that the call is decided: a
// holder is as safe as it has nodes. Locker.mu must be held.
func (l *Locker) strive(c *call, i int) {
	if n := &c.nodes[i]; c.hold == nil || c.legs[i].counts(time.Now()) || n.open > 0 || l.nodes[i].away() {
		return
	}
	h := renewal{c, lua.Renewal{Keys: c.Keys, Ticket: c.ticket, Token: c.hold.Token, Lease: c.ticket.Lease, Depth: 1}, true}
	l.core.Go(func() { l.renew(context.Background(), i, []renewal{h}) })
}

// tell tells a node the token that the Lease would have, without a longer lease. Locker.mu must be
// held.
func (l *Locker) tell(c *call, i int, token int64) {
	if c.nodes[i].open > 0 {
		return
	}
	h := renewal{c, lua.Renewal{Keys: c.Keys, Ticket: c.ticket, Token: token, Depth: 1}, false}
	l.core.Go(func() {
		l.renew(context.Background(), i, []renewal{h})
		l.mu.Lock()
		defer l.mu.Unlock()
		l.judge(c)
	})
}

// release is how a hold is given back at all nodes. All of it is guarded by Locker.mu.
type release struct {
	held, none int
	unsaid     int // nodes that have not answered, and whose votes were trusted as the release began
	done       int
	outcome    chan struct{} // closed when it is known
	all        chan struct{} // closed when all nodes have answered
}

// Release leaves all nodes. The first attempt sends the requests, which go on in the background;
// each attempt waits for a majority.
func (s strategy) Release(_ context.Context, _ *lua.Server, h *engine.Hold) (lua.Was, error) {
	s.mu.Lock()
	c := s.calls[h.Ticket.Counter]
	if c == nil {
		s.mu.Unlock()
		return "", errVanished
	}
	r := c.release
	if r == nil {
		r = s.beginRelease(c, h.Token)
	}
	s.mu.Unlock()
	select {
	case <-r.outcome:
		select {
		case <-r.all:
		case <-time.After(grace):
		}
	case <-time.After(silence):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.held+r.unsaid >= c.need: // nobody was let in where a node is silent since
		return lua.Held, nil
	case closed(r.outcome):
		return "", nil
	}
	return "", fmt.Errorf("a release: %w", errUnreachable)
}

// beginRelease sends a leave to every node that was asked. Locker.mu must be held.
func (l *Locker) beginRelease(c *call, token int64) *release {
	r := &release{outcome: make(chan struct{}), all: make(chan struct{})}
	c.release, c.phase = r, rules.Leaving
	now := time.Now()
	for i := range c.nodes {
		if !c.nodes[i].asked {
			l.left(c, r, "")
			continue
		}
		trusted := 0
		if c.legs[i].counts(now) {
			trusted = 1
		}
		r.unsaid += trusted
		l.core.Go(func() {
			was := l.leaves(c, i, token)
			l.mu.Lock()
			defer l.mu.Unlock()
			r.unsaid -= trusted
			l.left(c, r, was)
		})
	}
	return r
}

// left counts what a node said. Locker.mu must be held.
func (l *Locker) left(c *call, r *release, was lua.Was) {
	if was == lua.Held {
		r.held++
	} else {
		r.none++
	}
	known := r.held >= c.need || r.none > len(c.nodes)-c.need
	if known && !closed(r.outcome) {
		close(r.outcome)
	}
	if r.done++; r.done == len(c.nodes) {
		close(r.all)
	}
}

// Forget drops a hold that has ended.
func (s strategy) Forget(h *engine.Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, h.Ticket.Counter)
}

// failing reports whether the node's last request failed.
func (n *node) failing() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failed || n.silent(time.Now())
}
