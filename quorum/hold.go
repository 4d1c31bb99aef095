package quorum

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// renewal is a hold at one node.
type renewal struct {
	*call
	lua.Renewal
	decided bool
	vote    int64     // that an undecided call had when it told the token
	since   time.Time // what the answers are to: renewals from then on
}

// Renew prolongs holds at all nodes, side by side. It returns when all have answered, or when a
// majority has and the others had 250 ms, or a tenth of the shortest lease. It fails unless a
// majority of votes has been prolonged: that a majority is trusted yet is the success of an earlier
// renewal. What was sent shortly before and is answered late counts, or a node that is slow would
// never count.
func (s strategy) Renew(ctx context.Context, all []lua.Renewal) []lua.Renewed {
	holds := make([]renewal, 0, len(all))
	index := make([]int, 0, len(all))
	answers := make([]lua.Renewed, len(all))
	began, patience := time.Now(), hush
	s.mu.Lock()
	for k, r := range all {
		if c := s.calls[r.Ticket.Counter]; c != nil && c.Phase == rules.Granted {
			c.renewed, patience = began, min(patience, c.ticket.Lease/10)
			c.longest = max(c.longest, r.Lease)
			if c.renewing.IsZero() {
				c.renewing = began
			}
			since := began.Add(-min(r.Lease, c.ticket.Lease)/10 - time.Second)
			if since.Before(c.renewing) {
				since = c.renewing
			}
			holds, index = append(holds, renewal{c, r, true, 0, since}), append(index, k)
		} else {
			answers[k].Err = lua.ErrCutShort
		}
	}
	s.mu.Unlock()
	if len(holds) == 0 {
		return answers
	}
	s.round(patience, func(i int) error { return s.renew(ctx, i, holds) })
	for k, h := range holds {
		answers[index[k]] = s.outcome(h, began)
	}
	return answers
}

// Reassert asks once more.
func (s strategy) Reassert(ctx context.Context, r lua.Renewal) lua.Renewed {
	return s.Renew(ctx, []lua.Renewal{r})[0]
}

// renew renews holds at one node: in one request, and in one for each if the node refuses that. It
// may be about one of the locks. The error is nil if the node has answered.
func (l *Locker) renew(ctx context.Context, i int, holds []renewal) error {
	err := l.renewIn(ctx, i, holds)
	switch {
	case lua.Answered(err) && !lua.Passing(err) && len(holds) > 1:
		var all sync.WaitGroup
		for k := range holds {
			all.Add(1)
			l.core.Go(func() {
				defer all.Done()
				_ = l.renew(ctx, i, holds[k:k+1]) // handled there
			})
		}
		all.Wait()
	case lua.WrongType(err):
		l.nodes[i].logger.Warn("fairlock: a node cannot renew a lock: a key is of a wrong type", "lock", holds[0].Name, "record", holds[0].Keys.Record())
	}
	if lua.Answered(err) && !is(err, errOther) {
		return nil
	}
	return err
}

// renewIn sends one request for all holds to one node.
func (l *Locker) renewIn(ctx context.Context, i int, holds []renewal) (err error) {
	keys := make([]string, 1, 1+5*len(holds))
	keys[0] = l.nodeKey
	args := []any{l.args.id, l.nodes[i].arg, l.args.most}
	l.mu.Lock()
	holds = slices.DeleteFunc(slices.Clone(holds), func(h renewal) bool { // it has been given back meanwhile
		return h.decided && (h.Phase != rules.Granted || h.HasLost(i)) || !h.decided && (h.Phase != rules.Waiting || h.Vote(i) != h.vote)
	})
	if len(holds) == 0 {
		l.mu.Unlock()
		return nil
	}
	for _, h := range holds {
		h.Sent(i)
		till, lease := h.Till(i, h.Until, h.Since), h.Lease
		if h.Until > 0 && till == 0 { // a fixed lease, of which the node does not know
			lease = max(lease, h.Rest(time.Duration(h.Until-h.Since)*time.Microsecond, time.Now()))
		}
		place := max(h.Place, 1)
		if h.decided { // whoever waits with this node's vote gives it back, older or not
			place = 1
		}
		keys = append(keys, h.Keys.Record(), h.Keys.Queue(), h.Keys.Waiters(), h.Keys.Token(), l.mark(h.Keys, h.ticket))
		args = append(args, h.ticket.String(), h.Token, lease.Milliseconds(), int64(till)/1000, decimal(place), h.Depth, h.decided)
	}
	l.mu.Unlock()
	sent := time.Now()
	var reply []any
	err = lua.ErrCutShort
	defer func() { err = l.renewedIn(i, holds, sent, reply, err) }()
	reply, err = l.nodes[i].run(ctx, renewScript, keys, args...)
	return err
}

// renewedIn takes in what came of a request that was sent then. It returns err, or what is wrong
// with the reply.
func (l *Locker) renewedIn(i int, holds []renewal, sent time.Time, reply []any, err error) error {
	away := err != nil && rules.Retryable(err) // the node is; it may be back already
	lefts := numbers(reply)
	if err == nil && (len(reply) != len(holds) || len(lefts) != len(holds)) {
		err = definite{lua.WrongReply("renew", reply)}
	}
	var refusal error
	if !away {
		refusal = err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var missed []*call
	for k, h := range holds {
		h.Ended(i, lua.Unanswered(err))
		if away && h.decided {
			missed = append(missed, h.call)
		}
		if h.decided {
			h.refuses(i, len(l.nodes), refusal)
		}
		if err != nil {
			continue
		}
		left := lefts[k]
		if h.decided {
			h.Renewed(i, ms(left), h.Token, sent)
		} else {
			h.Knows(i, h.vote, ms(left), h.Token, sent)
		}
		if h.decided && left == 0 {
			l.confirm(h.call, i)
		}
		if h.decided && left <= 0 { // the answer may have come too late for the renewal's outcome
			l.core.Go(func() { l.lostVote(h.call, rules.Vanished) })
		}
	}
	if !l.nodes[i].away() {
		l.strive(i, missed...)
	}
	return err
}

// refuses notes why a node of so many refuses to renew the hold; nil: it does not. Locker.mu must be
// held.
func (c *call) refuses(i, n int, why error) {
	if c.refusals == nil && why != nil {
		c.refusals = make([]error, n)
	}
	if c.refusals != nil {
		c.refusals[i] = why
	}
}

// refused is why no majority can renew the call's hold, if so many nodes refuse. Locker.mu must be
// held.
func (l *Locker) refused(c *call) error {
	count := 0
	for _, err := range c.refusals {
		if err != nil {
			count++
		}
	}
	if count <= len(l.nodes)-l.need() {
		return nil
	}
	return byNode(c.refusals)
}

// outcome is what became of a renewal that began then. If it has succeeded, it says for how long
// the hold is trusted, counted from then.
func (l *Locker) outcome(h renewal, began time.Time) lua.Renewed {
	l.mu.Lock()
	trusted, ok := h.Standing(time.Now())
	prolonged := h.Prolonged(h.since, h.Lease)
	if prolonged {
		h.renewing = time.Time{}
	}
	hold := h.hold
	l.counts++
	count, refused := l.counts, l.refused(h.call)
	l.mu.Unlock()
	if !ok {
		l.core.Lose(hold, rules.Vanished)
		return lua.Renewed{}
	}
	l.core.Shorten(hold, trusted, count)
	if prolonged {
		lease := rules.LeaseToTrust(rules.Until(trusted, began)) - time.Millisecond // the Core takes the margin off again
		return lua.Renewed{Remaining: max(lease, time.Millisecond), Count: count}
	}
	if refused == nil {
		return lua.Renewed{Err: rules.ErrUnreachable}
	}
	// The others may have prolonged it, or may yet, as after an error that leaves that open: so the
	// ticket leaves, whatever becomes of the hold.
	hold.Requests.Sent()
	hold.Requests.Done(rules.ErrUnreachable)
	return lua.Renewed{Err: refused}
}

// strive gets decided calls the vote of one more node, or tells it that they are decided: a holder
// is as safe as it has nodes. Locker.mu must be held.
func (l *Locker) strive(i int, calls ...*call) {
	if !l.nodes[i].listens() {
		return
	}
	var all []renewal
	for _, c := range calls {
		if c.hold != nil && !c.Underway(i) && !c.HasLost(i) && l.core.Held(c.hold) {
			all = append(all, c.striving())
		}
	}
	for part := range slices.Chunk(all, lua.MaxRenewals) {
		l.core.Go(func() { _ = l.renew(context.Background(), i, part) }) // what fails is missed again
	}
}

// striving is what a decided call asks of a node that it strives for. Locker.mu must be held.
func (c *call) striving() renewal {
	r := lua.Renewal{Keys: c.Keys, Ticket: c.ticket, Token: c.hold.Token, Lease: c.ticket.Lease, Depth: 1}
	if c.Request.Fixed { // the node keeps it no longer than the others do, whom an Extend may have asked to
		now := time.Now()
		until, _ := c.Standing(now)
		r.Lease, r.Since = max(0, until.Sub(now)), c.hold.Since
		r.Until = r.Since + lua.Micros(r.Ticket.Lease.Microseconds())
	}
	return renewal{c, r, true, 0, time.Time{}}
}

// confirm makes a vote that came after the first renewal more than a claim. It asks the node also
// if a message that told of the vote could not be believed. Locker.mu must be held.
func (l *Locker) confirm(c *call, i int) {
	if c.renewed.IsZero() || c.Underway(i) {
		return // the end of the request that is under way confirms
	}
	if asked := c.TakeDue(i); asked || c.Has(i, time.Now()) {
		l.strive(i, c)
	}
}

// tell tells a node the token that the Lease would have, without a longer lease. Locker.mu must be
// held.
func (l *Locker) tell(c *call, i int, token int64) {
	if c.Underway(i) || l.nodes[i].away() { // then it is told when it answers again
		return
	}
	h := renewal{c, lua.Renewal{Keys: c.Keys, Ticket: c.ticket, Token: token, Depth: 1}, false, c.Vote(i), time.Time{}}
	l.core.Go(func() {
		err := l.renewIn(context.Background(), i, []renewal{h})
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil && !rules.Retryable(err) { // else it is told again with the next request
			c.Failed(i, fmt.Errorf("node %d: %w", i+1, err), true)
		}
		l.judge(c)
	})
}

// Forget drops a hold that has ended.
func (s strategy) Forget(h *engine.Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.calls[h.Ticket.Counter]; c != nil && c.claimed != nil {
		c.claimed.Stop()
	}
	delete(s.calls, h.Ticket.Counter)
}
