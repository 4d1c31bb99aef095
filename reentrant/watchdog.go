package reentrant

import (
	"container/heap"
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// poll is how often the watchdog looks at the wall clock while something is held: a machine that was suspended wakes up
// with timers that have hours to go.
const poll = time.Second

// schedule is a heap of holds, the one that is due first on top.
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
	wait := min(max(0, k.schedule[0].Due().Sub(now)), poll)
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
	switch {
	case h.Expires(now):
		k.lose(h, rules.Expired, over)
	case h.Renews(now):
		batch.add(h)
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
		if h.Expires(now) {
			k.lost(h, rules.Expired, suspended, over)
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
		switch held, reassert := k.renewed(h, renewals[i], sent, left[i]); {
		case reassert:
			if e := k.reassert(ctx, h, renewals[i]); e != nil {
				err = e
			}
		case held:
			prolonged++
		}
	}
	if prolonged > 0 {
		k.settings.Observe(Event{Kind: Renewed, Locks: prolonged})
	}
	return err
}

func (k *Keeper) reassert(ctx context.Context, h *Hold, r lua.Renewal) error {
	sent := time.Now()
	k.mu.Lock()
	live := h.Live(sent)
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
		why := rules.Vanished
		if left == lua.Forced {
			why = rules.Forced
		}
		k.Lose(h, why)
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	h.Reasserted(sent, left, r.Depth)
	k.prolonged(h)
	return nil
}

// renewed takes in the answer to a renewal. It reports whether the hold is held, and whether to
// reassert it.
func (k *Keeper) renewed(h *Hold, r lua.Renewal, sent time.Time, left time.Duration) (held, reassert bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.State != rules.Held {
		return false, false
	}
	if h.Renewed(sent, left, r.Depth) {
		return true, true
	}
	k.prolonged(h)
	return true, false
}

// prolonged puts a hold that was renewed where it belongs now. k.mu must be held.
func (k *Keeper) prolonged(h *Hold) {
	if h.State == rules.Held {
		h.settle()
		k.watch(h)
	}
}
