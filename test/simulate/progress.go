package simulate

import (
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/simulate/stage"
)

// soon is the time within which an undisturbed waiter gets a free lock: the heartbeat of 5 s, the 6
// s for places to come back after a loss of data, and a second for what is under way. A clock that
// is set back adds as much again, because marks and leases end at points in time.
const soon = 12 * time.Second

// calmAfter is how long after the last fault the weather counts as calm. By then the longest lease,
// liveness, returning places, and unanswered and late requests have passed. A clock that was set
// back adds as much again.
const calmAfter = 75 * time.Second

// calm reports whether no fault can still have an effect.
func (r *referee) calm() bool {
	return !r.w.calmFrom.IsZero() && time.Since(r.w.calmFrom) > calmAfter+r.w.setBack
}

// promptly returns how long a step may take in calm weather if it needs a few messages and no
// waiting.
func (r *referee) promptly() time.Duration { return 20*time.Millisecond + 10*r.w.plan.Latency }

// freedom notes since when a lock is free.
func (r *referee) freedom(lk *lock, is *state) {
	if is.held() || len(is.holds) > 0 {
		lk.free = time.Time{}
		lk.end = stage.Later(time.UnixMilli(is.latest()), is.keptUntil).Add(-r.w.server.offset)
		lk.owned = is.token
		return
	}
	if lk.free.IsZero() {
		lk.free = stage.Earlier(time.Now(), lk.end)
	}
}

// prompt judges how soon a free lock was given (4).
func (r *referee) prompt(lk *lock, was *state, g *grant) {
	free := lk.free
	if free.IsZero() && !was.held() { // the hold has expired since the referee last looked
		free = stage.Earlier(g.at, lk.end)
	}
	if free.IsZero() {
		return
	}
	wanted, told := r.wanted(lk)
	if wanted.IsZero() || !r.calm() {
		return
	}
	r.stats.Calm++
	idle, most := g.at.Sub(stage.Later(free, wanted)), r.promptly()+beat
	if told.IsZero() { // the hold ended sooner than any waiter had been told: that costs a heartbeat
		r.stats.Surprise = max(r.stats.Surprise, idle)
	} else if idle <= most { // who was told may have come back from a callback only just now
		idle, most = g.at.Sub(stage.Later(free, told)), r.promptly()
		r.stats.Idle = max(r.stats.Idle, idle)
	}
	if idle > most {
		r.violated(4, "%s was free for %v in calm weather, and wanted", lk.name, idle)
	}
}

// beat is the time between two heartbeats.
const beat = 5 * time.Second

// wanted returns since when an undisturbed call waits for a lock (zero: none does), and since when
// one waits that knew when the last ownership would end at the latest.
func (r *referee) wanted(lk *lock) (since, told time.Time) {
	for _, c := range r.w.clients {
		able, ok := c.link.able()
		if !ok || c.crashed || c.closing || c.paused != nil {
			continue
		}
		for k := range c.calls {
			if k.name != lk.name || !k.waits || k.inside > 0 {
				continue
			}
			s := stage.Later(stage.Later(able, k.began), k.back)
			since = first(since, s)
			last := lk.shown[c]
			if last.token == lk.owned && k.began.Before(last.at) && last.end.Before(lk.end.Add(r.promptly())) && !r.w.plan.Plain {
				told = first(told, s)
			}
		}
	}
	return since, told
}

// first is the earlier of two times, of which the first may be zero: none.
func first(t, u time.Time) time.Time {
	if t.IsZero() || u.Before(t) {
		return u
	}
	return t
}

// watch looks at every lock from time to time, because a lock that nobody asks about may be stuck.
func (r *referee) watch() {
	now := time.Now()
	for _, name := range r.w.names {
		lk := r.locks[name]
		is := r.w.server.read(lk.keys)
		r.freedom(lk, is)
		r.orphans(lk, is)
		if lk.free.IsZero() {
			continue
		}
		if wanted, _ := r.wanted(lk); !wanted.IsZero() && now.Sub(stage.Later(lk.free, wanted)) > soon+r.w.setBack {
			r.violated(4, "%s has been free for %v, and somebody undisturbed has waited for it for %v", name, now.Sub(lk.free), now.Sub(wanted))
		}
	}
	r.trust()
	r.renewals()
	r.evictions()
}

// evictions judges that a call that was evicted ends (2): its client hears of it, or is told by the
// next heartbeat, for as long as the server knows. The heartbeat before it may have been lost.
func (r *referee) evictions() {
	for _, c := range r.w.clients {
		able, quiet := c.link.able()
		if !quiet || c.closing || c.crashed || c.paused != nil {
			continue
		}
		for k := range c.calls {
			lk := r.locks[k.name]
			if k.evicted.IsZero() || k.inside > 0 || lk.steppedSince(k.evicted) > lua.MarkTTL/2 || lk.lost.After(k.evicted.Add(-time.Minute)) {
				continue
			}
			if d := time.Since(stage.Later(stage.Later(able.Add(c.patience()), k.evicted), k.back)); d > beat+2*time.Second {
				r.violated(2, "a %s of %s by %s was evicted, and waits on for %v", k.op, k.name, c.name, d)
			}
		}
	}
}

// renewals judges that an undisturbed holder has its lock renewed in good time (4), even if other
// holds in the same request have trouble.
func (r *referee) renewals() {
	for _, b := range r.beliefs {
		able, quiet := b.by.link.able()
		g := b.lk.grants[b.token]
		if !quiet || g == nil || !b.left.IsZero() || b.dim || b.by.closing || b.by.crashed || b.by.paused != nil ||
			time.Since(stage.Later(stage.Later(able, b.by.link.refused), b.start)) < 2*time.Second+b.by.lease || leaseOf(g.ticket) != b.by.lease || stage.ClientOf(g.ticket) != b.by.uuid {
			continue
		}
		if left := time.Until(b.lease.Deadline()); left > 0 && left < b.by.lease/3 {
			b.dim = true
			r.violated(4, "%s: %s is undisturbed since %v, and token %d is not renewed: %v are left",
				b.lk.name, b.by.name, time.Since(able), b.token, left)
		}
	}
}

// loses notes that the server has lost its data.
func (r *referee) loses() {
	for _, lk := range r.locks {
		lk.loss = loss{lost: time.Now(), back: make(map[string]bool)}
		if lk.free.IsZero() {
			lk.free = time.Now()
		}
	}
}

// shown is what an answer says of an ownership.
type shown struct {
	token   int64
	end, at time.Time
	told    time.Time // when the last request was executed whose answer has surely come, or is lost
}

// answered is told at that time. A message may come sooner than an answer from before it.
func (s shown) answered(now time.Time) time.Time {
	if s.told.IsZero() || now.Sub(s.at) > mostPatient+stage.SlowestHook {
		return s.at
	}
	return s.told
}

// steps notes that the server's clock was set forward.
func (r *referee) steps(by time.Duration) {
	if by < 0 {
		return
	}
	for _, lk := range r.locks {
		lk.steps = append(lk.steps, step{time.Now(), by})
		for _, g := range lk.grants {
			g.stepped += by
		}
	}
}

// abandoned reports whether a lock is held for more than half a minute by somebody whose process is
// gone or whose release the server refused, or is kept for somebody whom the server has forgotten
// and who does not exist any more.
func (r *referee) abandoned(name string) bool {
	lk := r.locks[name]
	is := r.w.server.read(lk.keys)
	if stage.Later(time.UnixMilli(is.latest()), is.keptUntil).Sub(is.at) < 30*time.Second {
		return false
	}
	for _, b := range r.beliefs {
		if b.lk == lk && !b.over && !b.by.crashed {
			return false
		}
	}
	for ticket := range is.holds {
		if c := r.w.byID(stage.ClientOf(ticket)); c != nil && !c.crashed && c.closed.IsZero() && !lk.refused[ticket] {
			return false
		}
	}
	return true
}
