package reentrant

import (
	"cmp"
	"container/heap"
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/lua"
)

// poll is how often the watchdog looks at the wall clock while something is held: a machine that was suspended wakes up
// with timers that have hours to go.
const poll = time.Second

// mostRenewed is how long a watchdog waits at most, however long its lease: the server remembers for a minute that an
// ownership was forced, and its token for ten at least. A renewal must come before it has forgotten.
const mostRenewed = 50 * time.Second

// renewedAfter is how long after a lease was written it is renewed.
func renewedAfter(lease time.Duration) time.Duration { return min(lease/3, mostRenewed) }

// schedule is a heap of holds, the one that is due first on top.
type schedule []*Hold

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].due().Before(s[j].due()) }
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

// moment is a time as what has passed since the Keeper began, by the monotonic clock: a third of a time.Time. 0 is none.
type moment = time.Duration

func (k *Keeper) moment(at time.Time) moment { return max(1, at.Sub(k.began)) }

// due is when h next needs something: a renewal, a word on its depth, or the end of its trust.
func (h *Hold) due() time.Time {
	at := h.trusted
	for _, m := range [...]moment{h.renewAt, h.syncAt} {
		if due := h.keeper.began.Add(m); m != 0 && due.Before(at) {
			at = due
		}
	}
	return at
}

// watch puts h where it belongs in the schedule. k.mu must be held.
func (k *Keeper) watch(h *Hold) {
	if k.closed {
		return
	}
	if h.index < 0 {
		heap.Push(&k.schedule, h)
	} else {
		heap.Fix(&k.schedule, int(h.index))
	}
	if h.index == 0 {
		k.arm()
	}
}

// unwatch takes h out of the schedule. k.mu must be held.
func (k *Keeper) unwatch(h *Hold) {
	if h.index >= 0 {
		heap.Remove(&k.schedule, int(h.index))
	}
}

// arm sets the timer for the first that is due. k.mu must be held.
func (k *Keeper) arm() {
	now := time.Now()
	wait := min(max(0, k.schedule[0].due().Sub(now)), poll)
	alarm := now.Add(wait)
	if k.timer != nil {
		if k.alarm.IsZero() || alarm.Before(k.alarm) {
			k.alarm = alarm
			k.timer.Reset(wait)
		}
		return
	}
	k.alarm = alarm
	k.timer = time.NewTimer(wait)
	k.ticked = time.Now()
	k.Go(k.watchdog)
}

func (k *Keeper) watchdog() {
	defer k.timer.Stop()
	for {
		select {
		case <-k.stop:
			return
		case <-k.timer.C:
			k.settings.Alarmed()
			k.tick(time.Now())
		}
	}
}

// tick does what is due: ends trust, sends renewals.
func (k *Keeper) tick(now time.Time) {
	var over ending
	var batch batch
	k.mu.Lock()
	if now.Round(0).Sub(k.ticked.Round(0)) > now.Sub(k.ticked)+poll {
		k.wake(now, &over)
	}
	k.ticked, k.alarm = now, time.Time{}
	for len(k.schedule) > 0 && k.serve(k.schedule[0], now, &batch, &over) {
	}
	if len(k.schedule) > 0 {
		k.arm()
	}
	k.mu.Unlock()
	over.carryOut(k)
	batch.send(k)
}

// serve does what h needs now, if it needs anything. k.mu must be held.
func (k *Keeper) serve(h *Hold, now time.Time, batch *batch, over *ending) bool {
	span := min(h.lease, h.term.Span)
	switch {
	case passed(h.trusted, now):
		k.lose(h, expired, over)
	// What is due soon goes along: leases taken at random times so come to share their requests.
	case h.renewAt != 0 && h.renewAt <= k.moment(now.Add(span/15)), h.syncAt != 0 && h.syncAt <= k.moment(now):
		batch.add(h)
		h.syncAt = 0
		h.renewAt = k.moment(now.Add(max(cmp.Or(span, h.term.Span)/10, 10*time.Millisecond))) // unanswered, it is sent again beside the first
		k.watch(h)
	default:
		return false
	}
	return true
}

// batch collects renewals that are as good as sent.
type batch struct {
	holds    []*Hold
	renewals []lua.Renewal
}

func (b *batch) add(h *Hold) {
	b.holds = append(b.holds, h)
	b.renewals = append(b.renewals, h.renewal())
	h.Requests.Sent()
}

// send sends them side by side, as many as one request takes in each.
func (b *batch) send(k *Keeper) {
	if k.server.Sharded() {
		for _, part := range b.parted(k.server) {
			part.sendAll(k)
		}
		return
	}
	b.sendAll(k)
}

func (b *batch) sendAll(k *Keeper) {
	for from := 0; from < len(b.holds); from += lua.MaxRenewals {
		to := min(from+lua.MaxRenewals, len(b.holds))
		k.Go(func() { _ = k.renew(b.holds[from:to], b.renewals[from:to]) })
	}
}

// parted is the batch by the nodes that its locks live on: one that is dead must not hold up the others.
func (b *batch) parted(server *lua.Server) map[redis.UniversalClient]*batch {
	parts := make(map[redis.UniversalClient]*batch)
	for i, h := range b.holds {
		node := server.Node(h.Keys)
		part := parts[node]
		if part == nil {
			part = new(batch)
			parts[node] = part
		}
		part.holds, part.renewals = append(part.holds, h), append(part.renewals, b.renewals[i])
	}
	return parts
}

// wake ends the trust in everything whose time has passed by the wall clock. k.mu must be held.
func (k *Keeper) wake(now time.Time, over *ending) {
	for _, h := range append(schedule(nil), k.schedule...) {
		if h.state == held && passed(h.trusted, now) {
			k.lose(h, "the wall clock passed its end: the machine was suspended, or its clock set", over)
		}
	}
}

// renew sends one request for all, and one more for each that the record does not have or whose token key is to be kept
// alive. Their Requests know of it already.
func (k *Keeper) renew(holds []*Hold, renewals []lua.Renewal) error {
	ctx := context.Background()
	sent := time.Now()
	left, err := k.server.Renew(ctx, renewals)
	for i, h := range holds {
		if missed := len(left) == 0 || left[i] == lua.Missed; missed {
			h.Requests.Done(err)
		} else {
			h.Requests.Done(nil)
		}
	}
	if err != nil {
		k.settings.Logger.Debug("fairlock: renewal failed", "locks", len(holds), "first", holds[0].Name, "error", err)
		if left == nil {
			return err
		}
	}
	prolonged := 0
	for i, h := range holds {
		if left[i] == lua.Missed {
			continue
		}
		if left[i] == lua.Failed {
			k.settings.Logger.Warn("fairlock: renewal failed: the record is of a wrong type", "lock", h.Name, "key", h.Keys.Record())
			continue
		}
		if left[i] > 0 && !k.tokenAges(h, sent) {
			if k.renewed(h, renewals[i], sent, left[i]) {
				prolonged++
			}
			continue
		}
		if e := k.reassert(ctx, h, renewals[i]); e != nil {
			err = e
		}
	}
	if prolonged > 0 {
		k.settings.Observe(Event{Kind: Renewed, Locks: prolonged})
	}
	return err
}

// tokenAges reports whether the token key should be kept alive by the next chance.
func (k *Keeper) tokenAges(h *Hold, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return now.Sub(k.began.Add(h.kept)) > max(5*time.Minute, h.Ticket.Lease)
}

func (k *Keeper) reassert(ctx context.Context, h *Hold, r lua.Renewal) error {
	sent := time.Now()
	k.mu.Lock()
	live := h.state == held && !passed(h.trusted, sent)
	if live {
		h.Requests.Sent()
	}
	k.mu.Unlock()
	if !live {
		return nil
	}
	left, err := k.server.Reassert(ctx, r)
	h.Requests.Done(err)
	if err != nil {
		k.settings.Logger.Debug("fairlock: renewal failed", "lock", h.Name, "error", err)
		return err
	}
	if left <= 0 {
		why := vanished
		if left == lua.Forced {
			why = forced
		}
		k.Lose(h, why)
		return nil
	}
	k.mu.Lock()
	h.kept = k.moment(sent)
	k.mu.Unlock()
	k.renewed(h, r, sent, left)
	return nil
}

// renewed takes in a successful renewal, unless the hold has ended meanwhile. Deadlines only grow, so an older answer that
// arrives later changes nothing.
func (k *Keeper) renewed(h *Hold, r lua.Renewal, sent time.Time, left time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.state != held {
		return false
	}
	expires := sent.Add(left)
	if expires.After(h.term.Expires) {
		h.term = Term{left, expires}
	}
	if trusted := expires.Add(-Margin(left)); trusted.After(h.trusted) {
		h.trusted = trusted
	}
	h.told = int32(r.Depth) //nolint:gosec // as in Swap
	h.renewAt, h.syncAt = 0, 0
	if h.lease > 0 && int(h.dropped) < max(1, len(h.grips)) {
		h.renewAt = k.moment(sent.Add(renewedAfter(h.lease)))
	}
	h.settle()
	k.deepen(h)
	return true
}
