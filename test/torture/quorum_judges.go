package torture

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// outages lists when a seat may have been without a majority of the nodes: so many of them had a
// trouble at one time. A trouble of a node counts for some time after its end. Troubles of the seat
// itself are listed too.
func outages(seat int, troubles []*trouble, need, nodes int, after func(*trouble) time.Duration) []*trouble {
	type change struct {
		at   int64
		node int
		by   int
	}
	var changes []change
	var all []*trouble
	for _, t := range troubles {
		switch {
		case t.Seat != everybody && t.Seat != seat:
		case t.Node == 0:
			all = append(all, t)
		default:
			end := int64(math.MaxInt64)
			if t.To != 0 {
				end = t.To + int64(after(t))
			}
			changes = append(changes, change{t.From, t.Node, 1}, change{end, t.Node, -1})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	harms, harmed := make(map[int]int), 0
	var now *trouble
	for _, c := range changes {
		before := harms[c.node]
		harms[c.node] += c.by
		switch {
		case before == 0:
			harmed++
		case harms[c.node] == 0:
			harmed--
		}
		without := nodes-harmed < need
		if without && now == nil {
			now = &trouble{Kind: "no majority", Seat: seat, From: c.at}
			all = append(all, now)
		} else if !without && now != nil {
			now.To, now = c.at, nil
		}
	}
	inTime(all)
	return all
}

// forgets reports whether a node has lost what it knew by a trouble.
func (t *trouble) forgets() bool {
	return t.Kind == "FLUSHALL" || strings.HasPrefix(t.Kind, "killed, restarted")
}

// briefly is how long after a trouble a node may not be of use to a holder. It renews or takes back
// what it has with its next renewal.
func briefly(*trouble) time.Duration { return settling }

// lengthy is how long after a trouble a node may not be of use to a waiter: it grants nothing if it
// has forgotten, and a waiter that does not know of that asks again with its next heartbeat.
func lengthy(t *trouble) time.Duration {
	if t.forgets() {
		return standing + most
	}
	return recovery
}

// byAge tells leases that may have ended before their first renewal was answered from the others. A
// node that grants nothing for now takes part with a renewal only: until then there is no vote of
// it, and one more node that forgets ends the lock.
func byAge(leases []*call) (young, renewed []*call) {
	for _, c := range leases {
		if time.Duration(c.trusted()-c.trusts()) < time.Second+settling {
			young = append(young, c)
		} else {
			renewed = append(renewed, c)
		}
	}
	return young, renewed
}

// calmly reports whether a process could be heard by the same majority all the time.
func (l *life) calmly(troubles []*trouble, from, to int64) bool {
	all := time.Duration(to - from)
	disturbed := all - l.undisturbed(troubles, from, to)
	return disturbed <= noPulse && disturbed < all
}

// stands is for how long after OnQueued a place may not be at a majority of nodes, as promise 2 has
// it: it has been told, and the requests are on their way.
const stands = noPulse

// waited returns from when until when a call stood in line, and for what it is judged then: 0, 0 if
// it never did.
func (c *call) waited() (from, to int64) {
	if c.stood == 0 {
		return 0, 0
	}
	from, to = c.stood+int64(stands), math.MaxInt64
	for _, at := range []int64{c.ended, c.life.Killed, c.closed().from} {
		if at != 0 {
			to = min(to, at)
		}
	}
	if c.limit != 0 {
		to = min(to, c.began+c.limit)
	}
	if c.token != 0 {
		to = min(to, c.token*1000)
	}
	return from, max(from, to)
}

// overtaken lists the calls that stood in line before another call began, and had to let it go
// first. judged counts those that it could have happened to.
func overtaken(calls []*call, troubles map[int][]*trouble) (wrong []string, judged int) {
	for _, of := range byLock(calls) {
		granted := slices.DeleteFunc(slices.Clone(of), func(c *call) bool { return c.token == 0 || c.how == nested })
		slices.SortFunc(granted, func(a, b *call) int { return cmp.Compare(a.token, b.token) })
		for _, c := range of {
			from, to := c.waited()
			if from == to || !c.life.calmly(troubles[c.life.Seat], c.began, to) {
				continue
			}
			judged++
			i, _ := slices.BinarySearchFunc(granted, from/1000, func(c *call, at int64) int { return cmp.Compare(c.token, at) })
			for _, other := range granted[i:] {
				if other.token*1000 >= to {
					break
				}
				if other.began > from && other != c && other.life.calmly(troubles[other.life.Seat], other.began, other.token*1000) {
					wrong = append(wrong, fmt.Sprintf("%v stood in line from %s to %s, and %v, which began at %s, had it before",
						c, clock(from), clock(to), other, clock(other.began)))
					break
				}
			}
		}
	}
	return wrong, judged
}

// vacant lists when nobody had a lock.
func vacant(leases []*call) (all []stretch) {
	until := int64(0)
	for _, c := range leases { // sorted by trusts
		if from := c.trusts(); from > until && until > 0 {
			all = append(all, stretch{from: until, to: from})
		}
		until = max(until, c.believed())
	}
	return all
}

// idle lists the calls that waited for a lock that nobody had, although nothing hindered anybody.
// troubles are those of each seat; others disturb all: they may leave a lock with somebody who is
// dead or stopped.
func idle(calls []*call, troubles map[int][]*trouble, others []*trouble) (wrong []string, longest time.Duration) {
	for lock, of := range byLock(calls) {
		leases := (&history{calls: of}).leases()
		for _, s := range vacant(leases) {
			if s.to-s.from < int64(settling) {
				continue
			}
			for _, c := range of {
				from, to := c.waited()
				if from == to || c.how == nested || from > s.to || to < s.from {
					continue
				}
				from, to = max(from, s.from), min(to, s.to)
				both := slices.Concat(troubles[c.life.Seat], others)
				inTime(both)
				all := c.life.undisturbed(both, from, max(from, to))
				longest = max(longest, all)
				if all > standing {
					wrong = append(wrong, fmt.Sprintf("lock %s: nobody had it from %s to %s, and for %v nothing kept %v from it",
						lock, clock(s.from), clock(s.to), all, c))
				}
			}
		}
	}
	return wrong, longest
}

// handover is a release and the next grant to somebody who waited already.
type handover struct {
	at   int64
	gap  time.Duration
	from *call
	to   *call
}

// handovers lists those of one lock, in order.
func handovers(leases []*call) (all []handover) {
	var before *call
	for _, c := range leases { // sorted by trusts
		if c.how == nested {
			continue
		}
		if before != nil && before.sure && before.given != 0 && c.began < before.given && c.ended > before.given {
			all = append(all, handover{before.given, time.Duration(c.ended - before.given), before, c})
		}
		before = c
	}
	return all
}

// widest is the widest gap of the hand-overs that began in that time.
func widest(all []handover, from, to int64) (gap time.Duration, n int) {
	for _, h := range all {
		if from <= h.at && h.at < to {
			gap = max(gap, h.gap)
			n++
		}
	}
	return gap, n
}
