package simulate

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/simulate/stage"
)

// referee sees the server's state before and after every request, and what every client believes.
// World.mu guards all fields.
type referee struct {
	w     *World
	locks map[string]*lock

	violations []string
	beliefs    []*belief // the present beliefs: those that have not ended long ago
	stats      Stats
}

// lock is what the referee knows of one lock.
type lock struct {
	name   string
	keys   keys
	grants map[int64]*grant // by token: also by those of the turns of its run
	top    int64            // the largest token given
	topped time.Time
	fence  int64             // the largest token that the fenced resource has seen
	clean  map[string]*grant // by call: the grant whose hold was released while in force
	unsure map[string]bool   // calls whose release went unanswered
	free   time.Time         // since when the lock is free; zero: it is held
	shown  map[*client]shown // what the last answer said of the ownership
	owned  int64             // the token of the last holder seen
	end    time.Time         // when the last record seen ends unless it is renewed

	users    map[user]*usage
	refused  map[string]bool // tickets whose leave the server has refused, or to which the referee has objected
	inflated bool            // the referee has objected to a token

	steps  []step      // steps of the server's clock, forward
	loss               // the last one
	lapses []loss      // as they were when the time for which the lock was kept ran out
	broken []time.Time // losses of data after which a newcomer got the lock before any client that knew the holder
}

// loss is a loss of the server's data, and its consequences.
type loss struct {
	lost  time.Time
	known bool            // a client that knew the holder has asked since
	kept  time.Time       // until when the lock is kept for earlier holders
	keeps int64           // the token of that placeholder
	back  map[string]bool // clients whose holds the server has again

	lapsed bool // the lock was given to somebody after that time
}

// step is one step of the server's clock.
type step struct {
	at time.Time
	by time.Duration
}

// steppedSince returns how far the server's clock was set forward since a time.
func (lk *lock) steppedSince(then time.Time) (all time.Duration) {
	for _, s := range lk.steps {
		if s.at.After(then) {
			all += s.by
		}
	}
	return all
}

// grant is one ownership.
type grant struct {
	token  int64
	ticket string
	turns
	place   int64
	at      time.Time
	forced  time.Time
	told    bool          // its client could hear of the force
	written time.Duration // the lease that the record was last written with
	// How far the server's clock has been set forward since the record was written, or since the
	// client was last told the time.
	stepped  time.Duration
	excused  []int64 // older tokens that may still be trusted: the server's clock stepped over their leases
	believed bool
	// Its token is not the largest, or was not when the lock was given to its owner again: see
	// given.
	low bool
}

func newReferee(w *World) *referee {
	r := &referee{w: w, locks: make(map[string]*lock)}
	for _, name := range w.names {
		r.locks[name] = &lock{
			name: name, keys: keysOf(w.plan.prefix(), name),
			users: make(map[user]*usage), refused: make(map[string]bool), grants: make(map[int64]*grant),
			clean: make(map[string]*grant), shown: make(map[*client]shown), unsure: make(map[string]bool), free: w.start,
		}
	}
	return r
}

// violated reports that an invariant does not hold.
func (r *referee) violated(invariant int, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	r.w.history.Note("REFEREE", "invariant %d: %s", invariant, what)
	r.violations = append(r.violations, r.w.verdict(invariant, what))
}

// look is one request as the referee watches it.
type look struct {
	r     *referee
	by    *client
	verb  string
	argv  []string
	locks []*lock
	was   []*state
}

// before reads the locks that a request is about.
func (r *referee) before(by *client, verb string, args []string) *look {
	l := &look{r: r, by: by, verb: verb}
	if verb == "" {
		return l
	}
	n, _ := strconv.Atoi(args[2])
	l.argv = args[3+n:]
	records := args[3 : 3+n]
	if verb != "renew" {
		records = records[:1]
	}
	for _, record := range records {
		if lk := r.locks[nameOf(record)]; lk != nil {
			l.locks = append(l.locks, lk)
			l.was = append(l.was, r.w.server.read(lk.keys))
		}
	}
	return l
}

// after judges what the request has done.
func (l *look) after(reply []byte) {
	for i, lk := range l.locks {
		was, is := l.was[i], l.r.w.server.read(lk.keys)
		if was.busy() || is.busy() {
			l.r.w.finds(lk.name)
		}
		if reply[0] != '-' { // a server without the script learns nothing from the request
			l.knowledge(lk)
		}
		l.holds(lk, was, is)
		l.size(lk, is)
		l.released(lk, was)
		l.stopping(lk, was)
		if g := l.given(lk, was, is); g != nil && !l.r.w.plan.Plain {
			l.order(lk, was, is, g)
		}
		l.dropped(lk, was, is)
		for _, p := range is.line {
			if _, ok := is.set[p.ticket]; !ok {
				l.r.violated(2, "%s: the %s of %s left %s in line without a deadline", lk.name, l.verb, l.by.name, p.ticket)
			}
		}
		for _, key := range is.naked {
			l.r.violated(5, "%s: %s has no end", l.verb, key)
		}
		l.r.freedom(lk, is)
		if l.verb == "enter" && lk.free.IsZero() {
			lk.shown[l.by] = shown{is.token, lk.end, time.Now(), lk.shown[l.by].answered(time.Now())}
		}
	}
	l.r.trust()
}

// tickets returns the tickets that the request names, with their places in the request.
func (l *look) tickets() (all []place) {
	from := map[string]int{"enter": 8, "leave": 4}[l.verb]
	for i := from; from > 0 && i+1 < len(l.argv); i += 4 {
		at, _ := strconv.ParseInt(l.argv[i+1], 10, 64)
		all = append(all, place{at, l.argv[i]})
	}
	return all
}

func (l *look) names(ticket string) bool {
	for _, p := range l.tickets() {
		if p.ticket == ticket {
			return true
		}
	}
	return false
}

func (l *look) number(i int) int64 {
	n, _ := strconv.ParseInt(l.argv[i], 10, 64)
	return n
}

// knowledge notes, after a loss of data, whether the request knows what was lost.
func (l *look) knowledge(lk *lock) {
	switch {
	case lk.lost.IsZero():
	case l.verb == "enter" && l.number(1) >= lk.top && lk.top > 0, l.verb == "reassert" && l.number(1) >= lk.top:
		lk.known = true
	}
}

// holds judges that no other request ends or shortens a hold (6; the record's part of 1).
func (l *look) holds(lk *lock, was, is *state) {
	for ticket, deadline := range was.holds {
		switch {
		case deadline <= was.ms:
		case l.verb == "leave" && l.names(ticket):
		case l.verb == "force" && l.number(4) == was.token:
		case is.holds[ticket] >= deadline:
		case was.token < is.token && was.token < lk.top:
			// The record is a ghost's: a server that had forgotten a larger token gave the lock, or
			// put the record back.
		default:
			l.r.violated(6, "%s: the %s of %s took %s of %s from its holder", lk.name, l.verb, l.by.name,
				time.Duration(deadline-is.holds[ticket])*time.Millisecond, ticket)
		}
	}
	if !lk.lost.IsZero() {
		if is.kept {
			if is.token > lk.keeps { // what was told of an earlier placeholder has no meaning any more
				lk.keeps, lk.kept = is.token, time.Time{}
			}
			lk.kept = stage.Later(lk.kept, is.keptUntil.Add(-l.r.w.server.offset))
		}
		if g := lk.grants[is.token]; g != nil && g.at.Before(lk.lost) {
			for ticket := range is.holds {
				lk.back[stage.ClientOf(ticket)] = true
			}
		}
	}
	if g := lk.grants[is.token]; g != nil {
		switch left := time.Duration(is.latest()-is.ms) * time.Millisecond; {
		case is.latest() > was.latest() || is.token != was.token:
			g.written, g.stepped = left, 0
		case is.latest() < was.latest(): // one of several holds is gone; the rest was written before
			g.written = left
		case l.verb == "renew": // the client's margin is computed from the time that is left when it is told
			g.written = min(g.written, left)
		}
		if l.verb == "force" && was.token != 0 {
			lk.force(was.token, l.r.w)
		}
	}
	if l.verb == "force" && is.token != was.token {
		lk.force(was.token, l.r.w)
	}
}

func (lk *lock) force(token int64, w *World) {
	if g := lk.grants[token]; g != nil && g.forced.IsZero() {
		g.forced = time.Now()
		g.told = w.server.heard(w.channel(g.ticket))
	}
}

// released notes which holds were given back while in force.
func (l *look) released(lk *lock, was *state) {
	if l.verb != "leave" {
		return
	}
	for _, p := range l.tickets() {
		if was.holds[p.ticket] > was.ms {
			lk.grants[was.token].cleanly(lk, p.ticket)
		}
	}
}

// given judges a change of the ownership (3), and returns the ownership if it is new.
func (l *look) given(lk *lock, was, is *state) *grant {
	if is.token == 0 || len(is.holds) == 0 || is.token == was.token && is.shares(was) {
		return nil
	}
	if g := lk.grants[is.token]; g != nil && is.owned(ownerOf(g.ticket)) {
		if lk.lost.Before(g.at) {
			l.r.violated(3, "%s: the %s of %s gave token %d again", lk.name, l.verb, l.by.name, is.token)
			return nil
		}
		if l.verb == "reassert" || is.token == was.token {
			g.low = g.low || is.token < lk.top && lk.topped.Before(lk.lost) && !lk.known
			// Its holder came back to a server that had forgotten it. That may be before a holder
			// with a larger token did.
			return nil
		}
	}
	// Exempt: data was lost, and the server's clock is behind the earlier token.
	if is.token <= lk.top && (!lk.lost.After(lk.topped) || is.at.UnixMicro() > lk.top) {
		l.r.violated(3, "%s: the %s of %s gave token %d after %d", lk.name, l.verb, l.by.name, is.token, lk.top)
	}
	if was.held() && l.verb != "leave" && l.verb != "force" {
		l.r.violated(1, "%s: the %s of %s gave a lock that was held", lk.name, l.verb, l.by.name)
	}
	g := &grant{token: is.token, at: time.Now(), written: time.Duration(is.latest()-is.ms) * time.Millisecond}
	for ticket := range is.holds { // if an owner was given the lock for several tickets, the first counts
		if at := l.placed(was, is, ticket); g.ticket == "" || at < g.place || at == g.place && ticket < g.ticket {
			g.ticket, g.place = ticket, at
		}
	}
	if !lk.lost.IsZero() && lk.topped.Before(lk.lost) && !lk.known {
		lk.broken = append(lk.broken, lk.lost)
	}
	if !lk.kept.IsZero() && !g.at.Before(lk.kept) && !lk.lapsed {
		lk.lapsed = true
		lapse := lk.loss
		lapse.back = maps.Clone(lk.back)
		lk.lapses = append(lk.lapses, lapse)
	}
	if told := lk.shown[l.r.w.byID(stage.ClientOf(g.ticket))].answered(g.at); stage.ClientOf(g.ticket) != l.by.uuid && !told.IsZero() {
		g.stepped = lk.steppedSince(told)
	}
	for _, b := range l.r.beliefs {
		if old := lk.grants[b.token]; b.lk == lk && old != nil && old.stepped > fairlock.Margin(old.written) {
			g.excused = append(g.excused, b.token)
		}
	}
	g.turns = turnsOf(is, g.ticket, was.last, l.r.w.plan.Plain)
	for k := range 1 + g.most {
		lk.grants[g.token-int64(k)] = g
	}
	if g.low = g.token <= lk.top; !g.low {
		lk.top, lk.topped = g.token, g.at
	}
	l.r.stats.Grants++
	if !l.r.w.plan.Plain {
		l.r.stats.Fair++
	}
	if was.waits(g.ticket) {
		l.r.stats.Waited++
	}
	l.r.prompt(lk, was, g)
	return g
}

// live reports whether a waiter in line is alive and reachable, so that its turn must not pass by.
func (l *look) live(was *state, ticket string) bool {
	client := stage.ClientOf(ticket)
	score, timed := was.set[ticket]
	switch {
	case timed && int64(score) <= was.ms: // overdue
	case was.set["!"+ticket] != 0: // it has left
	case was.marked("?" + client): // it was passed over when out of reach, and has not entered since
	case client == l.by.uuid, was.marked("~" + client): // it asks itself, or is blind
		return true
	default:
		return l.r.w.server.heard(l.r.w.channel(ticket))
	}
	return false
}

// placed returns the place of a ticket. A ticket without a place is at the end.
func (l *look) placed(was, is *state, ticket string) int64 {
	for _, p := range append(l.tickets(), was.line...) {
		if p.ticket == ticket && p.at > 0 {
			return p.at
		}
	}
	return is.at.UnixMicro()
}

// order judges that a grant overtook no waiter (2).
func (l *look) order(lk *lock, was, is *state, g *grant) {
	line := append([]place(nil), was.line...)
	for _, p := range l.tickets() {
		if l.verb == "enter" && p.at > 0 && !was.waits(p.ticket) {
			line = append(line, p)
		}
	}
	for _, p := range line {
		leaves := l.verb == "leave" && l.names(p.ticket)
		if p.at < g.place && is.holds[p.ticket] == 0 && !leaves && l.live(was, p.ticket) {
			l.r.violated(2, "%s: the %s of %s gave it to %s (place %d) before %s (place %d)",
				lk.name, l.verb, l.by.name, g.ticket, g.place, p.ticket, p.at)
		}
	}
}

// dropped judges that no waiter that is alive and reachable was taken out of the line (2).
func (l *look) dropped(lk *lock, was, is *state) {
	for _, p := range was.line {
		switch {
		case l.verb == "evict" && l.evicts(p.ticket) && !is.waits(p.ticket):
			l.r.evicted(lk, p.ticket)
		case is.waits(p.ticket), is.holds[p.ticket] > 0, l.verb == "leave" && l.names(p.ticket):
		case l.live(was, p.ticket):
			l.r.violated(2, "%s: the %s of %s dropped %s, which is alive and reachable", lk.name, l.verb, l.by.name, p.ticket)
		}
	}
}
