package torture

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// minutes is the outcome of a quorum's torture.
type minutes struct {
	*rebel
	table
	*watch
	lasted time.Duration
	took   time.Duration // by the longest call after the last trouble
}

// finish ends the workers.
func (r *minutes) finish() {
	r.tb.Helper()
	var all []*seat
	for _, m := range r.seats {
		all = append(all, &m.seat)
	}
	r.took = r.dismiss(all)
	r.ends()
	r.saves(nil)
}

// each is the outages of each seat. A node that stood still because the machine is busy counts too.
func (r *minutes) each(after func(*trouble) time.Duration) map[int][]*trouble {
	all, troubles := make(map[int][]*trouble), slices.Concat(r.troubles, r.slow)
	for _, m := range r.seats {
		all[m.number] = outages(m.number, troubles, r.need(), len(r.nodes), after)
	}
	return all
}

func inOrder(of map[int][]*trouble) []*trouble {
	var all []*trouble
	for _, troubles := range of {
		all = append(all, troubles...)
	}
	inTime(all)
	return all
}

// judge has all judges examine the run.
func (r *minutes) judge() {
	r.tb.Helper()
	h, err := readHistory(r.lives)
	r.ok(err)
	held, waiting := r.each(briefly), r.each(lengthy)
	r.happened(h)

	safe := slices.Clone(h.calls)
	safe = slices.DeleteFunc(safe, func(c *call) bool { return c.lock == robbed })
	robbedCalls := slices.DeleteFunc(slices.Clone(h.calls), func(c *call) bool { return c.lock != robbed })
	honest := &history{calls: safe}
	leases, victims := honest.leases(), (&history{calls: robbedCalls}).leases()
	both, _ := overlaps(leases, nil)
	more, allowed := overlaps(victims, h.forced())
	r.must("overlaps of trust", slices.Concat(both, more), fmt.Sprintf("%d allowed by ForceUnlock", len(allowed)))
	all := h.leases()
	r.must("contexts beyond trust", outlived(all), "")
	r.must("had when closed", afterClose(h.calls), "")
	young, renewed := byAge(leases)
	r.must("lost for nothing", slices.Concat(lostForNothing(young, inOrder(waiting)), lostForNothing(renewed, inOrder(held))), "")
	r.must("failed by what passes", slices.Concat(impatient(safe), impatient(h.unevicted(robbedCalls)), forNothing(safe, r.troubles), unrepeated(leases)), "")
	r.must("failed force, evict", h.failed(inOrder(held)), "")
	r.must("tokens out of order", disorder(all), "")
	wrong, judged := overtaken(safe, waiting)
	r.must("overtaken", wrong, fmt.Sprintf("of %d that waited while a majority could be reached all the time; nodes slow %d times", judged, len(r.slow)))
	r.must("lost waiters", r.forgotten(h), fmt.Sprintf("the last call ended %v after the last trouble", r.took.Round(time.Millisecond)))
	wrong, longest := idle(safe, waiting, r.harmed())
	r.must("standing still", wrong, fmt.Sprintf("a free lock with somebody in reach %v at most", longest.Round(time.Millisecond)))
	r.must("late returns", h.late(), "of calls with a limit")
	r.must("unclean unlocks", unclean(all), "")
	sum, wrong := r.resource.totals()
	r.must("wrong counters", slices.Concat(wrong, r.resource.uncounted(h, voters)), fmt.Sprintf("%d writes accepted", sum.accepted))
	r.must("stale writes accepted", stale(r.resource.written), fmt.Sprintf("%d refused", sum.refused))
	barred := slices.DeleteFunc(slices.Clone(h.barred), func(b barred) bool { return b.by.lock == robbed })
	r.must("fresh writes refused", refusedFresh(barred, nil), "")
	pieces, illegal := linearizable(safe, nil, time.Minute)
	r.must("not linearizable", illegal, fmt.Sprintf("%d calls in %d pieces, by porcupine", len(safe), pieces))
	wrong, longest = r.haunting(byNote(h.calls), r.troubles)
	r.must("ghosts", wrong, fmt.Sprintf("for %v at most while nothing hindered", longest.Round(time.Millisecond)))
	r.must("left at the end", r.leftovers(), "")
	r.must("harm not done", r.idle(len(all)), "")
	r.measure(leases)
}

func byNote(calls []*call) map[string]*call {
	all := make(map[string]*call)
	for _, c := range calls {
		all[fmt.Sprintf("%s-%d", c.life.Process, c.op)] = c
	}
	return all
}

// forced is when the lock was taken from its holders, as losses of what was granted before. Votes
// of before, of a process that does not hear of it, may make a holder for as long as they are a
// claim.
func (h *history) forced() (all []loss) {
	for _, t := range h.taken {
		if t.how != "ForceUnlock" {
			continue
		}
		l := loss{From: t.from, To: t.to + leaseTime.Nanoseconds()}
		if t.to == 0 {
			l.To = t.life.Dead + settling.Nanoseconds() + leaseTime.Nanoseconds()
		}
		all = append(all, l)
	}
	return all
}

// unevicted are the calls that nobody took out of the line. A ForceUnlock may do that, too: its
// victim had a majority of the votes, did not know yet, and gave some back.
func (h *history) unevicted(calls []*call) []*call {
	return slices.DeleteFunc(slices.Clone(calls), func(c *call) bool {
		return c.why == whyEvicted && slices.ContainsFunc(h.taken, func(t *robbery) bool {
			return t.from <= c.ended && (t.to == 0 || t.to >= c.began)
		})
	})
}

// noMajority is part of errors of calls that found too few nodes there. A node is taken for silent
// when the machine is too busy, too.
var noMajority = rules.ErrUnreachable.Error()

// reason is why a call was refused, in short.
func (c *call) reason() string {
	switch {
	case slices.Contains(reasons, c.why), c.why == whyEvicted:
		return c.why
	case strings.Contains(c.why, noMajority):
		return "no majority"
	}
	return "failed"
}

// failed lists calls of ForceUnlock and Evict that failed although their process had a majority.
func (h *history) failed(troubles []*trouble) (wrong []string) {
	for _, t := range h.taken {
		if t.to != 0 && t.why != "" && !strings.Contains(t.why, noMajority) && t.life.calmly(troubles, t.from, t.to) {
			wrong = append(wrong, fmt.Sprintf("%s of %s at %s: %s", t.how, t.life.Process, clock(t.from), t.why))
		}
	}
	return wrong
}

// harmed are the troubles of processes, which may leave a lock with somebody who is dead or stopped
// for up to a lease.
func (r *minutes) harmed() (all []*trouble) {
	for _, t := range r.troubles {
		if t.Node == 0 {
			all = append(all, &trouble{Kind: t.Kind, Seat: everybody, From: t.From, To: t.To + 2*leaseTime.Nanoseconds()})
		}
	}
	return all
}

// forgotten lists the survivors' calls that did not end.
func (r *minutes) forgotten(h *history) []string {
	wrong := h.unended()
	if r.took > ending {
		wrong = append(wrong, fmt.Sprintf("the last call ended %v after the last trouble, more than %v", r.took, ending))
	}
	return wrong
}

// idle lists the tricks that were not played, and says if the workers did next to nothing.
func (r *minutes) idle(leases int) []string {
	if r.lasted < 45*time.Second { // CI plans 25 s, and the last restart may take long
		return nil
	}
	var wrong []string
	for _, t := range coups {
		if r.counts[t.name] == 0 {
			wrong = append(wrong, t.name)
		}
	}
	if least := 10 * int(r.lasted.Seconds()); leases < least {
		wrong = append(wrong, fmt.Sprintf("%d acquisitions are fewer than %d", leases, least))
	}
	return wrong
}

// leftovers has a newcomer take each lock. It lists what stays at the nodes after that, and locks
// that cannot be had.
func (r *minutes) leftovers() (wrong []string) {
	ctx, cancel := context.WithTimeout(context.Background(), ending)
	defer cancel()
	l := r.locker()
	for _, lock := range append(slices.Clone(elected), robbed) {
		lease, err := l.Lock(ctx, lock)
		if err == nil {
			err = lease.Unlock(ctx)
		}
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("lock %s: %v", lock, err))
		}
	}
	r.ok(l.Close())
	wrong = append(wrong, r.stays(context.Background())...)
	for _, n := range r.nodes {
		left, err := remaining(context.Background(), n.admin)
		r.ok(err)
		for key, ttl := range left {
			if key != "quorum:node" && (ttl < 0 || ttl > lua.TokenTTL+2*lua.Claim) {
				wrong = append(wrong, fmt.Sprintf("node %d: %s lives for %v", n.number, key, ttl))
			}
		}
	}
	return wrong
}

// stays lists votes and lines that do not vanish. A node that the newcomer did not need may have
// those of the process that was killed, for as long as its line lives after its last heartbeat.
func (r *minutes) stays(ctx context.Context) (left []string) {
	for end := time.Now().Add(2*lua.Liveness + settling); ; time.Sleep(100 * time.Millisecond) {
		left = nil
		for _, n := range r.nodes {
			for _, lock := range append(slices.Clone(elected), robbed) {
				for _, part := range []string{"lock", "queue"} {
					count, err := n.admin.Exists(ctx, voteKey(part, lock)).Result()
					r.ok(err)
					if count != 0 {
						left = append(left, fmt.Sprintf("node %d: %s of lock %s", n.number, part, lock))
					}
				}
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

// happened adds what the workers and the saboteur did.
func (r *minutes) happened(h *history) {
	refusals, robberies, lossCount := make(map[string]int), make(map[string]int), 0
	longest := time.Duration(0)
	for _, c := range h.calls {
		if c.token == 0 && c.ended != 0 {
			refusals[c.reason()]++
		}
		if c.gone != 0 || c.outcome == whyLost {
			lossCount++
		}
		if c.token != 0 && c.how != nested {
			longest = max(longest, time.Duration(c.ended-c.began))
		}
	}
	for _, t := range h.taken {
		robberies[t.how]++
		if strings.Contains(t.why, noMajority) {
			robberies[t.how+" without a majority"]++
		}
	}
	killed := 0
	for _, l := range r.lives {
		if l.Killed != 0 {
			killed++
		}
	}
	done := make(map[string]int)
	for _, t := range r.troubles {
		done[t.Kind]++
	}
	r.add("totals", "%d acquisitions of %d calls, %d processes, %d of them killed", len(h.leases()), len(h.calls), len(r.lives), killed)
	r.add("refused", "%s", strings.Join(counted(refusals), ", "))
	r.add("robbed", "%s", strings.Join(counted(robberies), ", "))
	r.add("losses noticed", "%d; reconnected %d, passed over %d; the longest wait %v", lossCount, h.again, h.over, longest.Round(time.Millisecond))
	for line := range slices.Chunk(counted(done), 6) {
		r.add("troubles", "%s", strings.Join(line, ", "))
	}
	for line := range slices.Chunk(counted(r.counts), 6) {
		r.add("harm", "%s", strings.Join(line, ", "))
	}
}

// measure adds how wide the gaps between owners were around the instant at which one node was
// killed or stopped, and nothing else happened: another that came back may be in its quarantine.
func (r *minutes) measure(leases []*call) {
	all := handovers(byLock(leases)[elected[0]])
	type widths struct{ before, after []time.Duration }
	kinds := make(map[string]*widths)
	for _, t := range r.troubles {
		kind, _, _ := strings.Cut(t.Kind, ",")
		second := time.Second.Nanoseconds()
		other := func(o *trouble) bool {
			return o != t && o.From < t.From+second && o.To > t.From-second-lua.Claim.Nanoseconds()
		}
		if kind != "killed" && kind != "stopped" || slices.ContainsFunc(r.troubles, other) {
			continue
		}
		w := kinds[kind]
		if w == nil {
			w = &widths{}
			kinds[kind] = w
		}
		before, _ := widest(all, t.From-second, t.From-int64(noPulse))
		after, n := widest(all, t.From-int64(noPulse), t.From+second)
		if n > 0 {
			w.before, w.after = append(w.before, before), append(w.after, after)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		w := kinds[kind]
		if len(w.after) == 0 {
			continue
		}
		r.add("node "+kind, "%d times alone: the widest gap between owners %v in the second after, %v in the second before",
			len(w.after), slices.Max(w.after).Round(time.Microsecond), slices.Max(w.before).Round(time.Microsecond))
	}
}
