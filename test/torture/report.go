package torture

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/workers"
)

// These are the times that the protocol promises, and some time for the machine.
const (
	// ending is how long a survivor's call may take once there is no trouble any more. A lock whose
	// data was lost is given to nobody for 6 s. A stopped waiter may cost its liveness of 15 s, and
	// each of its tickets a claim.
	ending = 30 * time.Second
	// peace is for how long the workers go on after the last trouble, so that whatever must be
	// taken back is.
	peace = 2*(2*time.Second+time.Second) + settling
	// standing is how long a lock may be free while a waiter within reach is in line. A waiter
	// within reach may be out of line for as long. Both may last until the waiter's next heartbeat.
	standing = 5*time.Second + time.Second
)

// report is the outcome: a table of what happened, and of what must not have happened.
type report struct {
	*saboteur
	table
	stood  []*trouble    // when the machine stood still
	lasted time.Duration // how long the saboteur worked
	took   time.Duration // by the longest call after the last trouble
	gone   time.Time     // when the last process was gone
	looked time.Time     // when the keys that were left had been listed
	wait   time.Duration // from then until the last key has vanished
}

// finish ends the workers.
func (r *report) finish() {
	r.tb.Helper()
	r.took = r.dismiss(r.seats[:])
	r.gone = time.Now()
	r.stood = r.stalls.ends(r.troubles)
	r.troubles = append(r.troubles, r.stood...)
	r.saves(r.losses)
}

// judge has all judges examine the run.
func (r *report) judge() {
	r.tb.Helper()
	left, err := remaining(context.Background(), r.admin)
	r.ok(err)
	r.looked = time.Now()
	leaks, wait := leaked(left)
	r.wait = wait
	h, err := readHistory(r.lives)
	r.ok(err)
	o := newOrder(h.lives, h.calls, r.troubles)
	for _, l := range r.losses {
		workers.FollowJournal(r.tb, l.Journal, o.show)
		o.lost(l.To)
	}
	workers.FollowJournal(r.tb, r.dir, o.show)
	o.end(r.gone.UnixNano())

	r.happened(h, o)
	// Nothing is promised of prey.
	h.calls = slices.DeleteFunc(h.calls, func(c *call) bool { return strings.HasPrefix(c.lock, prey) })
	leases := h.leases()
	both, allowed := overlaps(leases, r.losses)
	r.must("overlaps of trust", both, fmt.Sprintf("%d allowed by a loss of data", len(allowed)))
	r.must("contexts beyond trust", outlived(leases), fmt.Sprintf("by more than %v and what their processes stood still", prompt))
	r.must("had when closed", afterClose(h.calls), "")
	r.must("broken by callbacks", broken(h.calls), "of others")
	r.must("lost for nothing", lostForNothing(leases, r.troubles), "")
	r.must("failed by what passes", slices.Concat(impatient(h.calls), forNothing(h.calls, r.troubles), unrepeated(leases)), "")
	holders, err := r.holders(context.Background())
	r.ok(err)
	r.must("ghosts", slices.Concat(o.ghosts, nobodys(o, holders)), fmt.Sprintf("%d tickets were there after their calls, for %v at most",
		o.left, o.longest.length().Round(time.Millisecond)))
	r.must("unheard grants", o.unheard, "")
	r.must("kept from a free lock", o.kept(h.calls), "")
	r.must("inversions", o.inversions, fmt.Sprintf("%d waiters were passed over, at most %v after they were harmed; that was no excuse for %.0f %% of the time",
		o.over, time.Duration(o.latest).Round(time.Millisecond), 100-r.away()))
	r.must("tokens out of order", slices.Concat(disorder(leases), o.disorder), "")
	r.must("lost tickets", r.forgotten(h, o), fmt.Sprintf("the last call ended %v after the last trouble", r.took.Round(time.Millisecond)))
	r.must("standing still", o.stands(), fmt.Sprintf("with somebody in reach %v at most; out of line %v at most",
		o.idle.length().Round(time.Millisecond), o.out.length().Round(time.Millisecond)))
	r.must("late returns", h.late(), "of calls with a limit")
	r.must("unclean unlocks", unclean(leases), "")
	sum, wrong := r.resource.totals()
	r.must("wrong counters", slices.Concat(wrong, r.resource.uncounted(h, hands)), fmt.Sprintf("%d writes accepted, and that is what the counters say", sum.accepted))
	r.must("stale writes accepted", stale(r.resource.written), fmt.Sprintf("%d refused", sum.refused))
	r.must("fresh writes refused", refusedFresh(h.barred, r.losses), "")
	began := time.Now()
	pieces, illegal := linearizable(h.calls, r.losses, time.Minute)
	r.must("not linearizable", illegal, fmt.Sprintf("%d calls in %d pieces, by porcupine in %v",
		len(h.calls), pieces, time.Since(began).Round(time.Millisecond)))
	r.must("harm not done", r.idle(h, len(leases)), "")
	r.must("leaked keys", slices.Concat(leaks, r.vanish()), fmt.Sprintf("all but tokens gone %v after the last process", time.Since(r.gone).Round(time.Second)))
}

// idle lists the tricks that were not played, and says if the workers did next to nothing. In both
// cases the run would prove little.
func (r *report) idle(h *history, leases int) []string {
	if r.lasted < time.Minute/2 {
		return nil
	}
	var wrong []string
	for _, t := range tricks {
		if r.counts[t.name] == 0 {
			wrong = append(wrong, t.name)
		}
	}
	for _, callback := range callbacks {
		for _, how := range antics {
			if name := callback + " " + how; h.tricks[name] == 0 {
				wrong = append(wrong, name)
			}
		}
	}
	for _, name := range []string{"Close", "Shutdown"} {
		if h.tricks[name] == 0 {
			wrong = append(wrong, name)
		}
	}
	if least := 10 * int(r.lasted.Seconds()); leases < least {
		wrong = append(wrong, fmt.Sprintf("%d acquisitions are fewer than %d", leases, least))
	}
	return wrong
}

// forgotten lists the survivors' calls and waiters that did not end.
func (r *report) forgotten(h *history, o *order) []string {
	wrong := h.unended()
	if r.took > ending {
		wrong = append(wrong, fmt.Sprintf("the last call ended %v after the last trouble, more than %v", r.took, ending))
	}
	return append(wrong, o.waiting()...)
}

// away returns for which part of all lives a waiter could have been passed over with an excuse, in
// per cent.
func (r *report) away() float64 {
	all, away := 0, 0
	for _, l := range r.lives {
		end := l.Killed
		if end == 0 {
			end = r.gone.UnixNano()
		}
		for at := l.Born; at < end; at += (100 * time.Millisecond).Nanoseconds() {
			all++
			if _, is := l.unreachable(r.troubles, at, at); is {
				away++
			}
		}
	}
	return 100 * float64(away) / float64(all)
}

// vanish waits for the keys that have an end, and returns those that live longer.
func (r *report) vanish() []string {
	for {
		left, err := remaining(context.Background(), r.admin)
		r.ok(err)
		maps.DeleteFunc(left, func(key string, _ time.Duration) bool {
			return strings.Contains(key, ":token:") || key == lua.ProtocolKey("fairlock") || strings.HasPrefix(lockOf(key), long)
		})
		if len(left) == 0 {
			return nil
		}
		if time.Since(r.looked) > r.wait+time.Second {
			return slices.Sorted(maps.Keys(left))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// happened adds what the workers and the saboteur did.
func (r *report) happened(h *history, o *order) {
	leases, refusals, lossCount, open := make(map[string]int), make(map[string]int), 0, 0
	for _, c := range h.calls {
		switch {
		case c.token != 0:
			leases[string(c.how)]++
		case c.ended == 0:
			open++
		case slices.Contains(reasons, c.why):
			refusals[c.why]++
		default:
			refusals["failed"]++
		}
		if c.gone != 0 || c.outcome == whyLost {
			lossCount++
		}
	}
	done, killed := make(map[string]int), 0
	for _, t := range r.troubles {
		done[t.Kind]++
	}
	for _, l := range r.lives {
		if l.Killed != 0 {
			killed++
		}
	}
	r.add("totals", "%d acquisitions, %d kills, %d stops, %d pauses, %d cuts, %d restarts (%d without data)", len(h.leases()), killed,
		done["SIGSTOP"], done["DEBUG SLEEP"]+done["CLIENT PAUSE ALL"]+done["CLIENT PAUSE WRITE"],
		done["cut"]+done["half-close"]+done["refuse"]+done["CLIENT KILL normal"]+done["CLIENT KILL pubsub"], done["restart"]+done["loss"], done["loss"])
	r.add("acquired by", "%s", strings.Join(counted(leases), ", "))
	r.add("in line", "%d of %d grants", o.queued, o.grants)
	r.add("refused", "%s", strings.Join(counted(refusals), ", "))
	r.add("open for ever", "%d, of killed processes", open)
	r.add("losses noticed", "%d", lossCount)
	r.add("reconnected", "%d, found themselves passed over %d", h.again, h.over)
	r.add("processes", "%d, %d of them killed", len(r.lives), killed)
	r.add("the machine stood still", "%d times", len(r.stood))
	harm := slices.Concat(counted(r.counts), counted(h.tricks))
	for len(harm) > 0 {
		line := harm[:min(len(harm), 7)]
		r.add("harm", "%s", strings.Join(line, ", "))
		harm = harm[len(line):]
	}
}
