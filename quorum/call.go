package quorum

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// splitFor is how long a try that found the votes split waits for them: whoever is oldest has them.
const splitFor = silence

// call is one call from its first request until it has left every node. All but the first block is
// guarded by Locker.mu.
type call struct {
	engine.Call
	ticket lua.Ticket
	away   <-chan struct{} // closed when the call must end
	most   int             // as a request says it: a bound of waiters, or -1 for a try

	*ballot
	nodes   []contact
	phase   rules.Phase
	settled chan struct{} // closed when the call has a turn or an error
	news    chan int      // the position, once
	queued  bool
	turn    *engine.Turn
	err     error
	last    answer // that refused a try, or told of the holder
	lastAt  time.Time
	split   *time.Timer // of a try
	hold    *engine.Hold
	release *release
}

// contact is what a call has sent to a node.
type contact struct {
	asked   bool
	open    int    // requests under way
	lost    bool   // a request was not answered, and may yet be executed
	refused bool   // held or full
	by      string // who had the vote then; empty: somebody in line comes first
	full    bool
	err     error // a definite one
}

// late reports whether a request may still be executed.
func (n *contact) late() bool { return n.open > 0 || n.lost }

// Acquire asks all nodes and waits for a majority.
func (s strategy) Acquire(ctx context.Context, of engine.Call) (*engine.Turn, error) {
	c, err := s.begin(of)
	if err != nil {
		return nil, err
	}
	defer func() { // also after a panic in a callback
		s.mu.Lock()
		defer s.mu.Unlock()
		s.abandon(c)
	}()
	var timeout <-chan time.Time
	if of.Request.Wait > 0 {
		timer := time.NewTimer(time.Until(of.Began.Add(of.Request.Wait)))
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		select {
		case <-c.settled:
			return c.turn, c.err // they do not change any more
		case position := <-c.news:
			s.core.Waits(ctx, c.Name, "", c.Request, position, true)
		case <-ctx.Done():
			end := engine.EndOf(ctx) // with no mutex held: the context may be the user's
			return s.giveUp(c, &engine.WaitError{Waited: time.Since(c.Began), Err: end})
		case <-timeout:
			return s.giveUp(c, nil)
		case <-c.away:
			return s.giveUp(c, engine.ErrClosed)
		}
	}
}

// giveUp ends the wait, unless it has just ended. No error stands for what was last heard.
func (l *Locker) giveUp(c *call, err error) (*engine.Turn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.phase != rules.Waiting {
		if c.turn != nil && errors.Is(err, engine.ErrClosed) {
			return c.turn, nil // the Core knows best
		}
		return c.turn, c.err
	}
	var waited *engine.WaitError
	if errors.As(err, &waited) {
		waited.Position = c.position()
	}
	if err == nil {
		err = c.refusal()
	}
	l.settle(c, nil, err)
	return nil, err
}

// refusal is the error of a call whose time is up. Locker.mu must be held.
func (c *call) refusal() error {
	if c.lastAt.IsZero() {
		return &engine.WaitError{Waited: time.Since(c.Began), Err: context.DeadlineExceeded}
	}
	e := &engine.HeldError{Remaining: max(0, c.last.left-time.Since(c.lastAt)), Waiting: c.last.position}
	if t, err := lua.ParseTicket(c.last.holder); err == nil {
		e.Owner = t.Identity()
	}
	return e
}

// begin enters the call in the table, and asks the nodes.
func (l *Locker) begin(of engine.Call) (*call, error) {
	c := &call{
		Call: of, ticket: l.core.Ticket(of.Request), away: l.draining, most: of.Request.MaxWaiters,
		nodes: make([]contact, len(l.nodes)), settled: make(chan struct{}), news: make(chan int, 1),
	}
	c.ballot = newBallot(len(l.nodes), min(lua.Claim, of.Request.Lease), of.Began)
	if of.Within {
		c.away = l.closing
	}
	if of.Request.Wait == 0 {
		c.most = -1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if closed(c.away) {
		return nil, engine.ErrClosed
	}
	l.calls[c.ticket.Counter] = c
	for i := range l.nodes {
		c.ask(i)
	}
	l.drain(c)
	l.judge(c)
	return c, nil
}

// drain sends what the call has to ask, to the nodes that are there. Locker.mu must be held.
func (l *Locker) drain(c *call) {
	due := c.due
	c.due = nil
	for _, i := range due {
		if c.nodes[i].open > 1 || l.nodes[i].away() {
			c.ask(i) // with the next answer, or when the node is back
			continue
		}
		l.send(c, i)
	}
}

// send sends one enter. Locker.mu must be held.
func (l *Locker) send(c *call, i int) {
	n, node := &c.nodes[i], l.nodes[i]
	n.asked = true
	n.open++
	place, back := c.asks(i)
	keys := []string{c.Keys.Record(), c.Keys.Queue(), c.Keys.Waiters(), c.Keys.Token(), l.nodeKey(), mark(c.Keys, c.ticket)}
	args := []any{c.ticket.String(), l.core.ID, decimal(place), c.most, decimal(back), l.channels(), l.set, l.most.Milliseconds()}
	pair := rules.ClockPair{Sent: time.Now(), Session: node.sessionNow()}
	l.core.Go(func() {
		reply, err := node.run(context.Background(), enterScript, keys, args...)
		var a answer
		if err == nil {
			a, err = decodeAnswer(reply)
		}
		pair.At = a.now
		l.mu.Lock()
		defer l.mu.Unlock()
		l.answered(c, i, &a, err, pair)
	})
}

// answered takes in what came of an enter. Locker.mu must be held.
func (l *Locker) answered(c *call, i int, a *answer, err error, pair rules.ClockPair) {
	n := &c.nodes[i]
	n.open--
	n.lost = n.lost || lua.Unanswered(err)
	switch {
	case err != nil:
		n.err = nil
		if !rules.Retryable(err) {
			n.err = fmt.Errorf("node %d: %w", i+1, err)
		}
		c.ask(i)
	case c.phase == rules.Gone:
		return // its leave, which is on its way, names the ticket as one whose requests may be late
	case a.status == gone:
		n.err = engine.ErrEvicted
	case a.status == held || a.status == full:
		n.refused, n.full, n.by = true, a.status == full, a.holder
		c.last, c.lastAt = *a, time.Now()
	default:
		n.refused, n.err = false, nil
		if a.status == waits {
			c.last, c.lastAt = *a, time.Now()
		}
		c.answer(i, a, pair, time.Now())
		if a.status == waits && c.phase == rules.Waiting {
			l.enqueue(c, a.left)
		}
	}
	if c.phase == rules.Granted {
		l.strive(c, i)
		return
	}
	l.judge(c)
}

// judge decides what becomes of a call that waits, and sends what it has to ask. Locker.mu must be
// held.
func (l *Locker) judge(c *call) {
	if c.phase != rules.Waiting {
		return
	}
	now := time.Now()
	token, term, tell, ok := c.decide(now)
	if ok {
		l.keep(c, token, term, now)
		return
	}
	for _, i := range tell {
		l.tell(c, i, token)
	}
	full, failed, open := 0, 0, 0
	refused := make(map[string]int) // by whom
	var err error
	for i := range c.nodes {
		n := &c.nodes[i]
		switch {
		case n.err != nil:
			failed++
			err = errors.Join(err, n.err)
		case n.refused:
			refused[n.by]++
		case n.open > 0 && !l.nodes[i].away():
			open++
		}
		if n.full {
			full++
		}
	}
	spare := len(l.nodes) - c.need
	switch {
	case failed > spare:
		l.settle(c, nil, err)
		return
	case full > spare:
		l.settle(c, nil, engine.ErrQueueFull)
		return
	case c.most < 0 && slices.Max(append(slices.Collect(maps.Values(refused)), 0)) >= c.need:
		l.settle(c, nil, c.refusal())
		return
	case c.most < 0 && open == 0:
		l.parts(c)
	}
	for i := range c.legs {
		if g := &c.legs[i]; g.Phase == rules.Granted {
			l.enqueue(c, time.Until(g.term.TrustEnds()))
		}
	}
	l.drain(c)
	if c.place > 0 && !c.queued && c.most >= 0 && c.position() > 0 {
		c.queued = true
		c.news <- c.position()
	}
}

// parts handles a try that has votes and no majority, while nobody else has one either: it stands in
// line for a moment, and the votes go to whoever is oldest. Locker.mu must be held.
func (l *Locker) parts(c *call) {
	reached := 0
	for i := range c.nodes {
		if c.legs[i].answered || c.nodes[i].refused {
			reached++
		}
	}
	if reached < c.need {
		l.settle(c, nil, c.unreached())
		return
	}
	c.most = 0
	for i := range c.nodes {
		c.nodes[i].refused = false
		c.ask(i)
	}
	c.split = time.AfterFunc(splitFor, func() { _, _ = l.giveUp(c, nil) })
}

// unreached is the error of a try that too few nodes have answered. Locker.mu must be held.
func (c *call) unreached() error {
	answered := 0
	for i := range c.nodes {
		if c.legs[i].answered || c.nodes[i].refused {
			answered++
		}
	}
	return fmt.Errorf("%d of %d nodes answered, and a majority is %d: %w", answered, len(c.nodes), c.need, errUnreachable)
}

var errUnreachable = errors.New("no majority of the nodes can be reached")

// keep puts what a majority has granted under the watchdog. Locker.mu must be held.
func (l *Locker) keep(c *call, token int64, t rules.Term, now time.Time) {
	var since lua.Micros
	for i := range c.legs {
		since = max(since, c.legs[i].since)
	}
	requests := new(engine.Requests)
	requests.Sent() // so a hold that expires leaves, too: its place in line would stay for a while
	turn := l.core.Keep(
		engine.Granted{Keys: c.Keys, Ticket: c.ticket, Token: token, Since: since, Requests: requests},
		engine.Run{}, t, engine.For{Name: c.Name, Fixed: c.Request.Fixed}, now,
	)
	c.hold, c.due = turn.Hold(), nil
	l.settle(c, turn, nil)
	for i := range c.nodes {
		l.strive(c, i)
	}
}

// settle ends the wait. Locker.mu must be held.
func (l *Locker) settle(c *call, turn *engine.Turn, err error) {
	c.turn, c.err = turn, err
	c.phase = rules.Gone
	if turn != nil {
		c.phase = rules.Granted
	}
	if c.split != nil {
		c.split.Stop()
	}
	l.dequeue(c)
	close(c.settled)
}
