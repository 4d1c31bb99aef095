package engine

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/redact"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// poll is how often the watchdog looks at the wall clock while something is held. A machine that
// was suspended wakes up with timers that have hours to go.
const poll = time.Second

// schedule is a heap of holds; the hold that is due first is on top.
type schedule []*Hold

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].Due().Before(s[j].Due()) }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = int32(i), int32(j) //nolint:gosec // memory is full before that overflows
}

func (s *schedule) Push(x any) {
	h := x.(*Hold)
	h.index = int32(len(*s)) //nolint:gosec // as in Swap
	*s = append(*s, h)
}

func (s *schedule) Pop() any {
	old := *s
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	h.index = -1
	return h
}

// watch puts h in the schedule, or moves h to its new place there. c.mu must be held.
func (c *Core) watch(h *Hold) {
	if c.closed {
		return
	}
	if h.index < 0 {
		heap.Push(&c.schedule, h)
		record := h.Keys.Record()
		h.next, c.watched[record] = c.watched[record], h
	} else {
		heap.Fix(&c.schedule, int(h.index))
	}
	if h.index == 0 {
		c.arm()
	}
}

// unwatch takes h out of the schedule. c.mu must be held.
func (c *Core) unwatch(h *Hold) {
	if h.index < 0 {
		return
	}
	heap.Remove(&c.schedule, int(h.index))
	record := h.Keys.Record()
	latest := c.watched[record]
	switch {
	case latest != h:
		for latest.next != h {
			latest = latest.next
		}
		latest.next = h.next
	case h.next == nil:
		delete(c.watched, record)
	default:
		c.watched[record] = h.next
	}
	h.next = nil
}

// arm sets the alarm for the hold that is due first. c.mu must be held.
func (c *Core) arm() {
	due := c.schedule[0].Due()
	if c.alarm != nil && c.alarm.IsBy(due) {
		return
	}
	now := time.Now()
	wait := min(max(0, due.Sub(now)), poll)
	if c.alarm != nil {
		c.alarm.By(now.Add(wait))
		return
	}
	timer := time.NewTimer(wait)
	c.alarm, c.ticked = &Alarm{timer, now.Add(wait)}, now
	c.Go(func() { c.watchdog(timer.C) })
}

func (c *Core) watchdog(alarm <-chan time.Time) {
	defer c.alarm.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-alarm:
			c.Settings.Alarmed()
			c.tick(time.Now())
		}
	}
}

// tick does what is due: it ends trust and sends renewals.
func (c *Core) tick(now time.Time) {
	var after effects
	var batch batch
	c.mu.Lock()
	if now.Round(0).Sub(c.ticked.Round(0)) > now.Sub(c.ticked)+poll {
		c.wake(now, &after)
	}
	c.ticked = now
	c.alarm.WentOff()
	for len(c.schedule) > 0 && c.serve(c.schedule[0], now, &batch, &after) {
	}
	if len(c.schedule) > 0 {
		c.arm()
	}
	c.mu.Unlock()
	after.carryOut(c)
	batch.send(c)
}

// serve does what h needs now, and reports whether h needed anything. c.mu must be held.
func (c *Core) serve(h *Hold, now time.Time, batch *batch, after *effects) bool {
	switch {
	case h.TrustOver(now):
		c.lose(h, rules.Expired, after)
	case h.StartRenewal(now):
		batch.add(h)
		if h.inLine() != nil {
			c.Go(func() { c.leaveLine(h) })
		}
		c.watch(h)
	default:
		return false
	}
	return true
}

// batch collects renewals that are noted as sent.
type batch struct {
	holds    []*Hold
	renewals []lua.Renewal
	late     []bool // an earlier request for the hold is unanswered: its connection may be dead
}

func (b *batch) add(h *Hold) {
	b.late = append(b.late, h.Requests.Underway())
	b.holds = append(b.holds, h)
	b.renewals = append(b.renewals, h.renewal())
	h.Requests.Sent()
}

// send sends the renewals in requests side by side, as many renewals in each as a request takes.
func (b *batch) send(c *Core) {
	if c.Server.Sharded() {
		for _, part := range b.parted(c.Server) {
			part.sendAll(c)
		}
		return
	}
	b.sendAll(c)
}

func (b *batch) sendAll(c *Core) {
	for from := 0; from < len(b.holds); from += lua.MaxRenewals {
		to := min(from+lua.MaxRenewals, len(b.holds))
		c.Go(func() { _ = c.renew(b.holds[from:to], b.renewals[from:to]) })
	}
	if _, one := c.protocol.(own); one { // a quorum probes its nodes; Redisson's stir when they time out
		if i := slices.Index(b.late, true); i >= 0 {
			c.Server.Stir(b.holds[i].Keys)
		}
	}
}

// parted splits the batch by the nodes that its locks live on, so that a dead node does not hold up
// the others.
func (b *batch) parted(server *lua.Server) map[*redis.Client]*batch {
	parts := make(map[*redis.Client]*batch)
	for i, h := range b.holds {
		node := server.Node(h.Keys)
		part := parts[node]
		if part == nil {
			part = new(batch)
			parts[node] = part
		}
		part.holds, part.renewals, part.late = append(part.holds, h), append(part.renewals, b.renewals[i]), append(part.late, b.late[i])
	}
	return parts
}

// wake ends the trust in all holds whose time has passed by the wall clock, and has the others
// renewed now: their timers stood still, too. c.mu must be held.
func (c *Core) wake(now time.Time, after *effects) {
	for _, h := range append(schedule(nil), c.schedule...) {
		if h.TrustOver(now) {
			c.loseFor(h, rules.Expired, suspended, h.Requests.Open(), after)
			continue
		}
		h.Woke(now)
		c.watch(h)
	}
}

// renew sends one request for all renewals. It sends one more for each hold that is missing in its
// record or whose token key is to be kept alive. The holds' Requests already count the renewals as
// sent.
func (c *Core) renew(holds []*Hold, renewals []lua.Renewal) error {
	ctx := context.Background()
	sent, answered := time.Now(), false
	defer func() {
		if !answered { // a hook of the client's has ended the goroutine
			for _, h := range holds {
				h.Requests.Done(lua.ErrCutShort)
			}
		}
	}()
	answers := c.protocol.Renew(ctx, renewals)
	answered = true
	var failed []int
	var doubtful []int // to reassert: once all answers are taken in, for it may take its time
	var err error      // of one of them
	longer, prolonged := make([]bool, len(holds)), 0
	for i, h := range holds {
		answer := answers[i]
		if answer.Err != nil {
			h.Requests.Done(answer.Err)
			err = answer.Err
			if lua.WrongType(err) {
				c.Settings.Logger.Warn("fairlock: renewal failed: the record is of a wrong type", "lock", h.first.Name, "key", h.Keys.Record())
			} else {
				failed = append(failed, i)
			}
			continue
		}
		var reassert bool
		if longer[i], reassert = c.renewed(h, renewals[i], sent, answer); longer[i] {
			prolonged++
		}
		if reassert {
			doubtful = append(doubtful, i)
		} else {
			h.Requests.Done(nil) // not before the answer is taken in: a turn would begin in between
		}
	}
	failures := make([]error, len(doubtful))
	ForEach(len(doubtful), func(k int) { // all of them, after the server has lost its data
		i := doubtful[k]
		defer holds[i].Requests.Done(nil) // of the renewal
		// A cluster refuses that while the slot moves. The next renewal asks again.
		switch e := c.reassert(ctx, holds[i], renewals[i]); {
		case e != nil && longer[i]:
			c.again(holds[i])
		case e != nil:
			failures[k] = e
		}
	})
	err = cmp.Or(cmp.Or(failures...), err)
	if len(failed) > 0 {
		first := failed[0]
		c.Settings.Logger.Debug("fairlock: renewal failed", "locks", len(failed), "first", holds[first].first.Name, "error", redact.Error(answers[first].Err))
	}
	if prolonged > 0 {
		c.Settings.Observe(Event{Kind: Renewed, Locks: prolonged})
	}
	return err
}

func (c *Core) reassert(ctx context.Context, h *Hold, r lua.Renewal) error {
	sent := time.Now()
	c.mu.Lock()
	live := h.Live(sent)
	if live {
		h.Requests.Sent()
	}
	c.mu.Unlock()
	if !live {
		return nil
	}
	answer := lua.Renewed{Err: lua.ErrCutShort}
	defer func() { h.Requests.Done(answer.Err) }()
	answer = c.protocol.Reassert(ctx, r)
	switch {
	case answer.Err != nil:
		c.Settings.Logger.Debug("fairlock: renewal failed", "lock", h.first.Name, "error", redact.Error(answer.Err))
		return answer.Err
	case answer.Forced:
		c.Lose(h, rules.Forced)
		return nil
	case answer.Remaining == 0:
		c.Lose(h, rules.Vanished)
		return nil
	}
	var after effects
	defer after.carryOut(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire(h, &after)
	h.Reasserted(sent, answer.Remaining, r.Depth)
	h.recount(answer.Count)
	c.prolonged(h)
	return nil
}

// renewed handles the answer to a renewal. It reports whether that prolonged the hold, and whether
// to reassert it.
func (c *Core) renewed(h *Hold, r lua.Renewal, sent time.Time, answer lua.Renewed) (longer, reassert bool) {
	var after effects
	defer after.carryOut(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire(h, &after)
	reassert = h.Renewed(sent, answer.Remaining, r.Depth)
	h.recount(answer.Count)
	if longer = answer.Remaining > 0 && h.State == rules.Held; longer {
		c.prolonged(h)
	}
	return longer, reassert
}

// expire ends a hold whose trust is over before an answer is taken in: a process that stood still
// may see the answer sooner than the clock, and somebody else may have had the lock in between. The
// ticket leaves, since the answer says that the record has the hold for longer. c.mu must be held.
func (c *Core) expire(h *Hold, after *effects) {
	if h.TrustOver(time.Now()) {
		c.loseFor(h, rules.Expired, causes[rules.Expired], true, after)
	}
}

// again has the hold renewed before long also if its lease is fixed.
func (c *Core) again(h *Hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.Again(time.Now())
	c.prolonged(h)
}

// prolonged moves a renewed hold to its new place in the schedule. c.mu must be held.
func (c *Core) prolonged(h *Hold) {
	if h.State == rules.Held {
		h.makeReady()
		c.watch(h)
	}
}
