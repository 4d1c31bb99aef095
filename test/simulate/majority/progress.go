package majority

import (
	"errors"
	"slices"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/quorum"
	"github.com/fairlock/locks/test/simulate/stage"
)

// soon is the time within which a waiter with a majority of nodes in reach gets a lock that nobody
// holds there: the 15 s for which nodes take the dead for waiters, a claim of 3 s that is under way
// then, the heartbeat of 5 s, and the rest for what is under way.
//
// A waiter that reaches a majority, of which some are in quarantine, may hold up the others for as
// long as that lasts.
func (r *referee) soon() time.Duration { return 30*time.Second + r.w.plan.Longest*21/20 }

// firmly is for how long a lock is trusted at least when messages grant it in calm weather: a
// claim, less its margin, a tenth of the heartbeat that compared the clocks, and the way.
const firmly = 2 * time.Second

// barely is for how long a lock is trusted at least as a call gets it: a tenth of a claim, less
// what goes by until the call has returned.
func barely(lease time.Duration) time.Duration {
	return min(lua.Claim, lease)/10 - 5*time.Millisecond
}

// useful judges that no call gets a lock that ends before its first renewal can be answered (4). One
// of several may be renewed just then, for the call had it before the others.
func (r *referee) useful(b *belief) {
	if b.k.fixed || len(b.k.with) > 0 || b.k.kept() > 0 || b.by.distracted.After(b.k.began) || b.by.paused != nil || !b.by.stood.Before(b.k.began) {
		return
	}
	if left := b.until(r.w).Sub(b.start); left < barely(b.by.lease) {
		r.violated(4, "%s is trusted for %v, as it was granted", b.lk.name, left)
	}
}

// bounded is how long after its end a call comes back: a request in the caller's own goroutine
// waits no longer than 250 ms, unless a hook of the user's takes its time in it.
const bounded = 300 * time.Millisecond

// calmAfter is how long after the last fault the weather counts as calm: by then quarantines, the
// leases of the dead, and late requests have passed.
func (w *World) calmAfter() time.Duration { return w.plan.Longest*21/20 + 45*time.Second }

// heals is for how long the weather must stay calm for that.
func (w *World) heals() time.Duration { return w.calmAfter() }

// calm reports whether no fault can still have an effect.
func (r *referee) calm() bool {
	return !r.w.calmFrom.IsZero() && time.Since(r.w.calmFrom) > r.w.calmAfter()
}

// trip is the longest round trip in calm weather, with what the pacer adds.
func (r *referee) trip() time.Duration { return r.w.plan.Latency*5/2 + 50*time.Microsecond }

// prompt judges how soon a free lock was given in calm weather to somebody who had waited for it
// (4): within two round trips, if the clocks of the nodes are not so far apart that they have to be
// told the token first. A fixed lease has to be confirmed.
func (r *referee) prompt(b *belief) {
	if !r.calm() {
		return
	}
	free := stage.Later(r.offered(b), r.detained(b))
	if b.k.queued.IsZero() || !b.k.queued.Add(r.settled()).Before(free) || b.k.fixed || b.by.paused != nil {
		return
	}
	if !r.givenBack(b.lk) {
		return // the last hold was lost, or overstayed
	}
	if left := b.until(r.w).Sub(b.start); left < firmly && b.k.kept() == 0 && r.freshly(b) {
		r.violated(4, "%s is trusted for %v, as it was granted in calm weather", b.lk.name, left)
	}
	r.stats.Calm++
	idle := float64(b.start.Sub(free)) / float64(r.trip())
	most := 2.0
	if r.w.plan.Apart {
		most = 4 // the nodes have to know the token
		r.stats.Told = max(r.stats.Told, idle)
	} else {
		r.stats.Idle = max(r.stats.Idle, idle)
	}
	if idle > most {
		r.violated(4, "%s was free for %v (%.1f round trips) in calm weather, and wanted", b.lk.name, b.start.Sub(free), idle)
	}
}

// offered is when a lock became free for b: it may have been another's turn, whose call ended.
func (r *referee) offered(b *belief) time.Time {
	free := b.lk.free
	for _, votes := range b.lk.votes {
		for _, v := range votes {
			if k := r.callOf(b.lk, v.ticket); k != nil && k != b.k && k.done && !k.leased && v.at.After(b.lk.free) {
				free = stage.Later(free, k.endedAt)
			}
		}
	}
	return free
}

// detained is until when the user's own code kept somebody from taking the lock, who had a vote
// since it was free and may have had it meanwhile, or from giving it back; or until it ended that
// call. Who asks for several locks may have had it, too, and have given it back.
func (r *referee) detained(b *belief) (until time.Time) {
	by := func(a *actor) {
		if until = stage.Later(until, a.back); a.inside || a.crashing {
			until = time.Now()
		}
	}
	by(b.k.actor)
	for _, o := range r.beliefs {
		if o.lk == b.lk && o.end.Equal(b.lk.free) {
			by(o.k.actor)
		}
	}
	for _, votes := range b.lk.votes {
		for _, v := range slices.Backward(votes) {
			if !v.at.After(b.lk.free) {
				break
			}
			switch k := r.callOf(b.lk, v.ticket); {
			case k == nil:
			case len(k.with) > 0:
				until = time.Now() // it may have had it until it had to wait for another
			default:
				by(k.actor)
			}
		}
	}
	return until
}

// freshly reports whether all nodes gave b their votes after the last hold of the lock.
func (r *referee) freshly(b *belief) bool {
	for _, votes := range b.lk.votes {
		if slices.ContainsFunc(votes, func(v vote) bool { return stage.CallOf(v.ticket) == b.owner && v.at.Before(b.lk.free) }) {
			return false
		}
	}
	return true
}

// wanted judges how soon a lock that was free and wanted was given in calm weather (4). Its votes
// may have been split: then they are asked back, and given again.
func (r *referee) wanted(b *belief) {
	oldest := stage.Later(b.k.began, b.k.actor.back)
	for _, c := range r.w.present {
		for k := range c.calls {
			if k.name == b.lk.name && k.op != "trylock" && len(k.with) == 0 && !k.actor.inside {
				oldest = stage.Earlier(oldest, stage.Later(k.began, k.actor.back))
			}
		}
	}
	if !r.calm() || b.by.paused != nil || !r.givenBack(b.lk) {
		return
	}
	free := stage.Later(b.lk.free, r.detained(b))
	idle := float64(b.start.Sub(stage.Later(oldest, free))) / float64(r.trip())
	r.stats.Split = max(r.stats.Split, idle)
	if idle > splitTrips {
		r.violated(4, "%s was free and wanted for %.1f round trips in calm weather", b.lk.name, idle)
	}
}

// splitTrips is how many round trips it may take until somebody has a lock that is free: to ask,
// find a place, be asked for a vote, give it back, tell the token, and to load scripts.
const splitTrips = 8

// givenBack reports whether the last hold of a lock was given back in time.
func (r *referee) givenBack(lk *lock) bool {
	return slices.ContainsFunc(r.beliefs, func(o *belief) bool { return o.lk == lk && o.end.Equal(lk.free) && !o.late && !o.left.IsZero() })
}

// watch looks at every lock from time to time, because a lock that nobody asks about may be stuck.
func (r *referee) watch() {
	for _, name := range r.w.names {
		lk := r.locks[name]
		views := make([]*state, len(r.w.nodes))
		for i, n := range r.w.nodes {
			views[i] = n.read(lk.keys)
		}
		r.waits(lk, views)
		r.orphans(lk, views)
	}
	r.trust()
}

// waits judges that nobody waits for a free lock (4).
func (r *referee) waits(lk *lock, views []*state) {
	held := slices.ContainsFunc(r.beliefs, func(b *belief) bool { return b.lk == lk && b.until(r.w).After(time.Now()) })
	for _, c := range r.w.present {
		if c.closing {
			continue
		}
		for k := range c.calls {
			if k.name != lk.name {
				continue
			}
			mine := func(ticket string) bool { return stage.ClientOf(ticket) == c.uuid && stage.NoteOf(ticket) == k.note }
			since, able := c.reaches(r.w.need(), func(l *link) bool {
				is := views[l.n.i]
				return l.n.grants() && (is.ticket == "" || mine(is.ticket) || !is.decided)
			})
			if held || !able {
				k.stuck = time.Now()
				for _, other := range k.with {
					other.stuck = k.stuck // who asks for several waits for one of them
				}
				continue
			}
			if d := time.Since(stage.Later(stage.Later(since, k.began), stage.Later(k.stuck, lk.free))); d > r.soon() {
				r.violated(4, "%s has been free for %v, and %s (%s) has waited for it with a majority in reach", lk.name, d, c.name, k.note)
			}
		}
	}
}

// wayBack bounds how long a call that has ended may leave something with a node that can be
// reached. It covers a request to a dead connection, and the wait before the next request.
const wayBack = 25 * time.Second

// orphans judges that no ticket stays with a node after its call has ended (7), neither in line nor
// with its vote. A dead or closed client's end with their leases. What comes back with a node's old
// data is not left again.
func (r *referee) orphans(lk *lock, views []*state) {
	for i, is := range views {
		n := r.w.nodes[i]
		if n.down {
			continue
		}
		for _, p := range is.line {
			r.orphan(lk, n, p.ticket, "is in line")
		}
		if is.ticket != "" && !is.waits(is.ticket) {
			r.orphan(lk, n, is.ticket, "has the vote")
		}
	}
}

func (r *referee) orphan(lk *lock, n *node, ticket, what string) {
	k := r.callOf(lk, ticket)
	if k == nil || !k.done {
		return
	}
	c := k.actor.c
	since, able := c.links[n.i].able()
	if c.crashed || c.closing || c.paused != nil || !able || r.keeps(lk, ticket) || n.lost.After(k.left) {
		return
	}
	bound := wayBack
	if k.tardy { // its claim ends, and then its place with the line
		bound += lua.Claim + lua.Liveness
	}
	if d := time.Since(stage.Later(stage.Later(since, c.stood), k.endedAt)); d > bound {
		k.done = false // one objection is enough
		r.violated(7, "%s: %s %s at %s, and its call ended %v ago: nobody will leave", lk.name, ticket, what, n.name, d)
	}
}

// keeps reports whether somebody has a Lease of that ticket and has not given it back: what is held
// when a Locker is closed stays held until then.
func (r *referee) keeps(lk *lock, ticket string) bool {
	k := r.callOf(lk, ticket)
	return k != nil && k.leased && !k.returned
}

// unlocksIn judges how long an Unlock took (4), but for what the user's own code has kept it.
func (r *referee) unlocksIn(c *client, b *belief, began time.Time, kept time.Duration) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	took := time.Since(began) - kept
	since, able := c.reaches(r.w.need(), nil)
	if !c.crashed && c.paused == nil && c.stood.Before(began) && took > 5*time.Second+bounded {
		r.violated(4, "an Unlock of %s by %s took %v", b.lk.name, c.name, took)
	}
	if c.distracted.After(began) {
		return
	}
	if able && since.Before(began.Add(-settling)) && !c.closing {
		r.stats.Unlock = max(r.stats.Unlock, took)
		if took > bounded+2*r.trip() {
			r.violated(4, "an Unlock of %s by %s with a majority in reach took %v", b.lk.name, c.name, took)
		}
	}
}

// begins notes at which nodes a call begins on a free lock that nobody else asks for.
func (r *referee) begins(k *call) {
	lk := r.locks[k.name]
	lk.asked++
	k.nth = lk.asked
	for _, c := range r.w.clients {
		for other := range c.calls {
			if other.name == k.name {
				return
			}
		}
	}
	for _, l := range k.actor.c.links {
		since, able := l.able()
		if is := l.n.read(lk.keys); able && since.Before(k.began.Add(-settling)) && l.n.grants() && is.ticket == "" && len(is.line) == 0 {
			k.free = append(k.free, l.n)
		}
	}
}

// split is how long a try that found the votes split may wait for them.
const split = 250 * time.Millisecond

// returns judges how long a call took that waits for nobody (4): a try, and who asks for a free
// lock alone. Nodes may have to be met, asked, told their place and the token. Such a try has the
// lock in calm weather: before, late requests of the dead may take votes. Then nobody is alone.
func (r *referee) returns(k *call, err error) {
	c, took, limit := k.actor.c, time.Since(k.began)-k.kept(), bounded+8*r.trip()
	since, able := c.reaches(r.w.need(), nil)
	if !able || !since.Before(k.began.Add(-settling)) || c.closing || k.within || len(k.with) > 0 || k.evicted || c.distracted.After(k.began) {
		return
	}
	_, alone := c.reaches(r.w.need(), func(l *link) bool { return slices.Contains(k.free, l.n) && !r.taken(k, l.n) })
	switch {
	case alone && k.nth == r.locks[k.name].asked:
		r.stats.Alone++
		r.stats.Free = max(r.stats.Free, took)
		if k.op == "trylock" && r.calm() && errors.Is(err, quorum.ErrHeld) {
			r.violated(4, "a try of %s (%s) by %s was turned away, and nobody had the lock", k.name, k.note, c.name)
		}
	case k.op == "trylock":
		limit += split
		r.stats.Try = max(r.stats.Try, took)
	default:
		return
	}
	if took > limit {
		r.violated(4, "a %s of %s (%s) by %s with a majority in reach took %v", k.op, k.name, k.note, c.name, took)
	}
}

func sortTimes(all []time.Time) { slices.SortFunc(all, time.Time.Compare) }

// taken reports whether a node has given its vote to another since a call began.
func (r *referee) taken(k *call, n *node) bool {
	lk := r.locks[k.name]
	return slices.ContainsFunc(lk.votes[n.i], func(v vote) bool {
		return !v.at.Before(k.began) && r.callOf(lk, v.ticket) != k
	})
}
