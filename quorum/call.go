package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/locks/internal/ballot"
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
	sent   time.Time       // when nodes were first asked: the user's context may have taken long before

	*ballot.Ballot
	settled  chan struct{} // closed when the call has a turn or an error
	news     chan int      // the position, once
	queued   bool
	turn     *engine.Turn
	err      error
	split    *time.Timer // of a try
	claimed  *time.Timer // of a fixed lease that its claim is: when nodes hear that the call is decided
	hold     *engine.Hold
	renewed  time.Time     // when the latest renewal began: votes that missed it are renewed by themselves; zero: none
	longest  time.Duration // that any renewal asked for
	refusals []error       // of nodes that refused their last renewal; nil: none did
	renewing time.Time     // when the first renewal went out since a majority last answered one; zero: all were answered
	arg      any           // the ticket, as an argument of scripts
	keys     []any         // of scripts about this call
	release  *release      // nil: the hold is not given back yet
}

// Acquire asks all nodes and waits for a majority.
func (s strategy) Acquire(ctx context.Context, of engine.Call) (turn *engine.Turn, err error) {
	c, own, err := s.begin(ctx, of)
	if err != nil {
		return nil, err
	}
	defer func() { // also after a panic in a callback
		s.mu.Lock()
		s.abandon(c)
		had := c.turn
		s.mu.Unlock()
		if had != nil && turn == nil {
			s.core.Abandon(had)
		}
	}()
	own()
	var timeout <-chan time.Time
	if of.Request.Wait > 0 {
		timer := time.NewTimer(time.Until(of.Began.Add(of.Request.Wait)))
		defer timer.Stop()
		timeout = timer.C
	}
	var late <-chan time.Time
	if of.Request.Wait == 0 || of.Request.MaxWaiters > 0 { // it may be refused
		timer := time.NewTimer(time.Until(c.sent.Add(hush)))
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case <-c.settled:
			return c.turn, c.err // they do not change any more
		case position := <-c.news:
			s.core.TellPosition(ctx, &c.Call, position, true)
		case <-ctx.Done():
			end := engine.EndOf(ctx) // with no mutex held: the context may be the user's
			return s.giveUp(c, &engine.WaitError{Waited: time.Since(c.Began), Err: end})
		case <-late:
			s.mu.Lock()
			c.Hurry()
			s.judge(c)
			s.mu.Unlock()
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
	_, its := err.(*engine.WaitError) //nolint:errorlint // it may hold a user's error
	if c.Phase != rules.Waiting {
		if c.turn != nil && err != nil && !its {
			return c.turn, nil // the Locker is closed: the Core knows best
		}
		return c.turn, c.err
	}
	if err == nil {
		err = c.refusal()
	}
	switch e := err.(type) { //nolint:errorlint // it is ours
	case *engine.WaitError:
		e.Position, e.Failure = c.Position(), l.unreachable()
	case *engine.HeldError:
		e.Failure = l.unreachable()
	}
	l.settle(c, nil, err)
	return nil, err
}

// refusal is the error of a call whose time is up. Locker.mu must be held.
func (c *call) refusal() error {
	if c.LastAt.IsZero() {
		return &engine.WaitError{Waited: time.Since(c.Began), Err: context.DeadlineExceeded}
	}
	e := &engine.HeldError{Remaining: max(0, c.Last.Left-time.Since(c.LastAt)), Waiting: c.Last.Position}
	if t, err := lua.ParseTicket(c.Last.Holder); err == nil {
		e.Owner = t.Identity()
	}
	return e
}

// begin enters the call in the table, and asks the nodes: one of them by own, which the caller
// calls.
func (l *Locker) begin(ctx context.Context, of engine.Call) (c *call, own func(), err error) {
	c = &call{
		Call: of, ticket: l.core.Ticket(&of.Request), away: l.draining, settled: make(chan struct{}), news: make(chan int, 1),
	}
	c.arg, c.keys = c.ticket.String(), l.keysOf(c.Keys, c.ticket)
	bound := of.Request.MaxWaiters
	if of.Request.Wait == 0 {
		bound = -1
	}
	c.Ballot = ballot.New(len(l.nodes), min(lua.Claim, of.Request.Lease), bound, of.Began)
	if of.Within {
		c.away = l.closing
	}
	mine, by := l.ownLeg(ctx, of.Request.Wait) // with no mutex held: the context may be the user's
	l.mu.Lock()
	defer l.mu.Unlock()
	if engine.IsClosed(c.away) {
		return nil, nil, engine.ErrClosed
	}
	l.calls[c.ticket.Counter] = c
	c.sent = time.Now()
	own = func() {}
	missing := false
	for i := range l.nodes {
		switch {
		case l.nodes[i].away():
			c.Ask(i)
			missing = true
		case i == mine:
			own = l.enter(ctx, c, i, by)
		default:
			l.crew.run(l.enter(context.Background(), c, i, l.nodes[i].server))
		}
	}
	if missing {
		l.judge(c)
	}
	return c, own, nil
}

// ownLeg is the node to which the caller sends a request from its own goroutine, while others send
// to the other nodes: the one that answers soonest, so a majority does not wait for it. That saves
// a goroutine's wake-up. It is -1 if the caller could be kept longer than it may.
func (l *Locker) ownLeg(ctx context.Context, wait time.Duration) (i int, by *lua.Server) {
	if wait > 0 && wait < silence {
		return -1, nil
	}
	var soonest time.Duration
	i = -1
	for k, n := range l.nodes {
		if !n.server.Sends(ctx, silence) { // the crew has goroutines that stay
			continue
		}
		n.mu.Lock()
		usual, there := n.usual, !n.failed && !n.silent()
		n.mu.Unlock()
		if there && (i < 0 || usual < soonest) {
			i, soonest = k, usual
		}
	}
	if i < 0 {
		return -1, nil
	}
	by, ok := l.nodes[i].server.Prompt(ctx, silence)
	if !ok {
		return -1, nil
	}
	return i, by
}

// drain sends what the call has to ask, to the nodes that are there. Locker.mu must be held.
func (l *Locker) drain(c *call) {
	for _, i := range c.Due(l.away) {
		l.crew.run(l.enter(context.Background(), c, i, l.nodes[i].server))
	}
}

// away reports whether that node is not to be asked now.
func (l *Locker) away(i int) bool { return l.nodes[i].away() }

// enter is one request, which what it returns sends by that Server; if ctx ends, it may fail.
// Locker.mu must be held.
func (l *Locker) enter(ctx context.Context, c *call, i int, by *lua.Server) func() {
	node := l.nodes[i]
	place, back := c.Enter(i)
	command := l.enterCommand(c, node, place, back)
	return func() {
		pair := rules.ClockPair{Sent: time.Now(), Session: node.sessionNow()}
		var a ballot.Answer
		err := lua.ErrCutShort
		defer func() {
			pair.At = a.Now
			l.mu.Lock()
			defer l.mu.Unlock()
			l.answered(c, i, &a, err, pair)
		}()
		var reply []any
		if reply, err = node.send(ctx, by, enterScript, command); err == nil {
			a, err = decodeAnswer(reply, c.ticket.Claim())
		}
	}
}

// enterCommand is that of an enter: few words, on the usual way.
func (l *Locker) enterCommand(c *call, n *node, place lua.Place, back int64) []any {
	if place == 0 && c.Bound == 0 && back == 0 {
		return enterScript.CommandOn(c.keys, c.arg, n.arg, l.args.most)
	}
	return enterScript.CommandOn(c.keys, c.arg, n.arg, l.args.most, decimal(place), c.Bound, decimal(back))
}

// answered takes in what came of an enter. Locker.mu must be held.
func (l *Locker) answered(c *call, i int, a *ballot.Answer, err error, pair rules.ClockPair) {
	c.Entered(i, lua.Unanswered(err))
	switch {
	case err != nil:
		c.Failed(i, fmt.Errorf("node %d: %w", i+1, err), !rules.Retryable(err))
	case c.Phase == rules.Gone:
		return // its leave, which is on its way, names the ticket as one whose requests may be late
	case a.Status == ballot.Gone:
		if c.Phase == rules.Waiting { // the message may have been lost: one node's word is enough here, too
			l.fail(c, engine.ErrEvicted)
		}
	default:
		c.Answered(i, a, pair, time.Now())
		if a.Status == ballot.Waits && c.Phase == rules.Waiting {
			l.enqueue(c, a.Left)
		}
	}
	if c.Phase == rules.Granted { // whatever the answer is: a message may have told of a vote before it came
		l.confirm(c, i)
	}
	l.judge(c)
}

// judge decides what becomes of a call that waits, and sends what it has to ask. Locker.mu must be
// held.
func (l *Locker) judge(c *call) {
	if c.Phase != rules.Waiting {
		return
	}
	now := time.Now()
	v := c.Judge(now, l.away)
	switch v.Do {
	case ballot.Hold:
		l.keep(c, v.Token, v.Term, now)
		return
	case ballot.Refuse:
		l.fail(c, c.refusal())
		return
	case ballot.Fill, ballot.Fail:
		// Pooled connections may have died unnoticed: nodes that are away may be back at once.
		if v.Away && now.Sub(c.sent) < silence {
			break
		}
		if v.Do == ballot.Fill {
			v.Err = engine.ErrQueueFull
		} else if v.Away {
			v.Err = errors.Join(v.Err, byNode(l.absent()))
		}
		l.fail(c, v.Err)
		return
	case ballot.Wait:
	}
	for _, i := range v.Tell {
		l.tell(c, i, v.Token)
	}
	if v.Split {
		c.split = time.AfterFunc(splitFor, func() { _, _ = l.giveUp(c, nil) })
	}
	if end := c.Ends(); !end.IsZero() {
		l.enqueue(c, time.Until(end))
	}
	l.drain(c)
	if c.Place > 0 && !c.queued && c.Request.Wait != 0 && c.Position() > 0 { // a try tells nobody that it waits
		c.queued = true
		c.news <- c.Position()
	}
}

// keep puts what a majority has granted under the watchdog. Locker.mu must be held.
func (l *Locker) keep(c *call, token int64, t rules.Term, now time.Time) {
	requests := new(engine.Requests)
	requests.Sent() // so a hold that expires leaves, too: its place in line would stay for a while
	turn := l.core.Keep(
		engine.Granted{Keys: c.Keys, Ticket: c.ticket, Token: token, Since: c.Since(), Requests: requests},
		engine.Run{}, t, engine.For{Name: c.Name, Fixed: c.Request.Fixed}, now,
	)
	c.hold = turn.Hold()
	l.settle(c, turn, nil)
	// The first renewal, after a third of a claim, tells the nodes, and strives for the other votes.
	if c.Request.Fixed && t.Span >= c.ticket.Lease { // but nothing is renewed
		c.claimed = time.AfterFunc(t.Span/3, func() { l.tellDecided(c) })
	}
}

// tellDecided does what else the first renewal does: nodes hear that the call is decided, and are
// asked for the votes that it has not.
func (l *Locker) tellDecided(c *call) {
	l.core.Settings.Alarmed()
	l.mu.Lock()
	defer l.mu.Unlock()
	if engine.IsClosed(l.closing) || c.Phase != rules.Granted || !c.renewed.IsZero() {
		return
	}
	c.renewed = time.Now()
	for i := range l.nodes {
		if c.Underway(i) {
			c.Ask(i) // the end of the request confirms
		}
		l.strive(i, c)
	}
}

// settle ends the wait. Locker.mu must be held.
func (l *Locker) settle(c *call, turn *engine.Turn, err error) {
	c.turn, c.err = turn, err
	c.Phase = rules.Gone
	if turn != nil {
		c.Phase = rules.Granted
	}
	if c.split != nil {
		c.split.Stop()
	}
	l.dequeue(c)
	close(c.settled)
}

// fail ends the wait without the lock. What the call has goes back at once: its caller may be in a
// callback, and somebody else have the next turn. Locker.mu must be held.
func (l *Locker) fail(c *call, err error) {
	l.settle(c, nil, err)
	l.abandon(c)
}
