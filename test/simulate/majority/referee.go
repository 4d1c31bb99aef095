package majority

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/simulate/stage"
)

// referee sees the nodes' state after every request, and what every client believes. World.mu
// guards all fields.
type referee struct {
	w     *World
	locks map[string]*lock

	violations []string
	beliefs    []*belief // those that have not ended long ago
	stats      Stats
}

// lock is what the referee knows of one lock.
type lock struct {
	name   string
	keys   lua.Keys
	views  []*state  // as each node last had it
	votes  [][]vote  // that each node gave
	fence  int64     // the largest token that the fenced resource has seen
	fenced string    // whose that was
	since  time.Time // when the resource first saw it
	free   time.Time
	asked  int                  // calls for it so far
	forced map[string]time.Time // by call: when somebody last ended its hold at a node by force
}

// vote is one that a node gave.
type vote struct {
	ticket string
	at     time.Time
	again  bool // it had it before: a renewal wrote it again, or the node came back with old data
}

func newReferee(w *World) *referee {
	r := &referee{w: w, locks: make(map[string]*lock)}
	for _, name := range w.names {
		lk := &lock{name: name, keys: keysOf(name), votes: make([][]vote, len(w.nodes)), free: w.start, forced: make(map[string]time.Time)}
		for range w.nodes {
			lk.views = append(lk.views, new(state))
		}
		r.locks[name] = lk
	}
	return r
}

// violated reports that an invariant does not hold. World.mu must be held.
func (r *referee) violated(invariant int, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	r.w.history.Note("REFEREE", "invariant %d: %s", invariant, what)
	r.violations = append(r.violations, r.w.verdict(invariant, what))
}

// objects is violated for those who do not hold World.mu.
func (r *referee) objects(invariant int, format string, args ...any) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.violated(invariant, format, args...)
}

// after judges what a request has done.
func (r *referee) after(l *link, verb string, args []string, reply []byte) {
	count, _ := strconv.Atoi(args[2])
	keys, argv := args[3:3+count], args[3+count:]
	for _, key := range keys {
		if !strings.HasPrefix(key, prefix+":lock:") || strings.Contains(key, ":left:") {
			continue
		}
		lk := r.locks[nameOf(key)]
		if lk == nil || verb == "inspect" {
			continue
		}
		was, is := lk.views[l.n.i], l.n.read(lk.keys)
		lk.views[l.n.i] = is
		for _, key := range is.naked {
			r.violated(5, "%s at %s: %s has no end", verb, l.n.name, key)
		}
		by := ""
		if verb == "leave" && len(argv) > 5 {
			by = argv[5]
		}
		if k := r.callOf(lk, argv[0]); verb == "enter" && k != nil && k.done && time.Since(k.endedAt) > lua.MarkTTL {
			k.tardy = true
		}
		if by == "1" {
			r.forces(lk, argv[0], strings.Contains(string(reply), "held"))
		}
		if k := r.callOf(lk, argv[0]); by == "2" && k != nil {
			k.evicted = true // it is told, or keeps the lock; nobody takes a vote from it
		}
		r.voted(lk, l.n, is)
		r.placed(lk, l.n, is)
		r.dropped(lk, l, verb, argv, was, is)
	}
	r.trust()
}

// voted notes a vote that the node gave.
func (r *referee) voted(lk *lock, n *node, is *state) {
	all := lk.votes[n.i]
	if is.ticket == "" || len(all) > 0 && all[len(all)-1].ticket == is.ticket {
		return
	}
	given := vote{is.ticket, time.Now(), slices.ContainsFunc(all, func(v vote) bool { return v.ticket == is.ticket })}
	if len(all) > 1000 {
		all = append(all[:0], all[500:]...)
	}
	lk.votes[n.i] = append(all, given)
	if !given.again {
		r.stats.Votes++
	}
}

// placed notes the places of those who are in line.
func (r *referee) placed(lk *lock, n *node, is *state) {
	for _, p := range is.line {
		if k := r.callOf(lk, p.ticket); k != nil {
			k.at[n.i] = p.at
		}
	}
}

// callOf is the call of a ticket for a lock, or nil if it is not known.
func (r *referee) callOf(lk *lock, ticket string) *call {
	if c := r.w.byID(stage.ClientOf(ticket)); c != nil {
		return c.noted[stage.NoteOf(ticket)+" "+lk.name]
	}
	return nil
}

// hasLost reports whether a call has lost its lock: its ticket leaves when the lease ends.
func (r *referee) hasLost(k *call) bool {
	return k.leased && slices.ContainsFunc(r.beliefs, func(b *belief) bool { return b.k == k && b.lease.Err() != nil })
}

// dropped judges that no waiter that is alive and reachable was taken out of a line (2).
func (r *referee) dropped(lk *lock, l *link, verb string, argv []string, was, is *state) {
	for _, p := range was.line {
		k := r.callOf(lk, p.ticket)
		if is.waits(p.ticket) || k == nil || k.done || r.hasLost(k) || l.n.lost.After(k.began) || verb == "leave" && argv[0] == p.ticket {
			continue
		}
		c := k.actor.c
		since, able := c.reaches(r.w.need(), nil) // without a majority, a waiter stands back
		its, quiet := c.links[l.n.i].able()
		if since = stage.Later(since, its); !able || !quiet || c.paused != nil || c.closing || k.queued.IsZero() || stage.Later(since, c.stood).After(k.began.Add(-settling)) {
			continue
		}
		r.violated(2, "%s: a %s of %s dropped %s at %s, which is alive and reachable", lk.name, verb, l.c.name, p.ticket, l.n.name)
	}
}

// settling is how long before a call its links must have been undisturbed for its client to be
// heard all the while: a subscription has to be made again.
const settling = 10 * time.Second

// forces notes that somebody ended a hold at a node by force, or took a waiter out of line.
func (r *referee) forces(lk *lock, ticket string, held bool) {
	lk.forced[stage.CallOf(ticket)] = time.Now()
	if k := r.callOf(lk, ticket); k != nil && !held {
		k.evicted = true
	} else if k != nil && !k.done {
		k.evicted = true // it had a vote, and not the lock
	}
}

// order judges that a call that gets the lock overtakes nobody (2): who has its place at a majority
// of nodes that can be reached, before the call begins.
func (r *referee) order(lk *lock, x *call) {
	for _, c := range r.w.present {
		if c.crashed || c.closing || c.paused != nil {
			continue
		}
		for k := range c.calls {
			lost := k.fixed && (k.actor.inside || k.kept() > 0) // what it was granted ended while the user's own code kept it
			if k == x || k.name != lk.name || k.within || lost || k.actor.crashing || k.evicted || k.queued.IsZero() || !k.queued.Add(r.settled()).Before(x.began) {
				continue
			}
			places := make(map[int64]int)
			for i, at := range k.at {
				since, able := c.links[i].able()
				if able && stage.Later(since, c.stood).Before(k.began.Add(-settling)) && r.w.nodes[i].lost.Before(k.began) {
					places[at]++
				}
			}
			for at, count := range places {
				if count >= r.w.need() {
					r.violated(2, "%s: %s (%s), which began after %v, has it before %s (%s), whose place is %d at %d nodes since %v",
						lk.name, x.actor.c.name, x.note, x.began.Sub(r.w.start), c.name, k.note, at, count, k.queued.Sub(r.w.start))
				}
			}
		}
	}
}

// settled is more than two round trips.
func (r *referee) settled() time.Duration { return 10*r.w.plan.Latency + 100*time.Millisecond }

// Stats count what happened in a run.
type Stats struct {
	Simulated time.Duration // of traffic
	Leases    int           // successful calls, nested ones too
	Owned     int           // ownerships
	Waited    int           // of these, of calls that had waited
	Votes     int           // that nodes gave
	Refused   int           // writes with an old token that the fenced resource refused
	Requests  int
	Calm      int           // hand-overs in calm weather
	Idle      float64       // the longest time that a wanted lock was free in calm weather, in round trips
	Told      float64       // the same where the clocks of the nodes are seconds apart
	Split     float64       // the longest until anybody had a free lock in calm weather, in round trips
	Over      time.Duration // the longest that a call came back after its end
	Unlock    time.Duration // the longest Unlock with a majority in reach
	Try       time.Duration // the longest TryLock with one
	Alone     int           // calls for a free lock that nobody else asked for, with one
	Free      time.Duration // the longest of them
	Faults    map[string]int
}

// Outcome is the result of a run.
type Outcome struct {
	Stats
	Violations []string
	Digest     uint64 // of the whole history
	Tail       string // the end of the history, up to the first violation
}

// Add adds the counts of another run.
func (s *Stats) Add(o Stats) {
	s.Simulated += o.Simulated
	s.Leases += o.Leases
	s.Owned += o.Owned
	s.Waited += o.Waited
	s.Votes += o.Votes
	s.Refused += o.Refused
	s.Requests += o.Requests
	s.Calm += o.Calm
	s.Alone += o.Alone
	s.Idle, s.Told, s.Over, s.Unlock = max(s.Idle, o.Idle), max(s.Told, o.Told), max(s.Over, o.Over), max(s.Unlock, o.Unlock)
	s.Try, s.Free, s.Split = max(s.Try, o.Try), max(s.Free, o.Free), max(s.Split, o.Split)
	if s.Faults == nil {
		s.Faults = make(map[string]int)
	}
	for kind, n := range o.Faults {
		s.Faults[kind] += n
	}
}
