package survey

import "time"

// How many of the last looks to remember, and how many of them must have found the lock held for
// its holding time to count.
const (
	remembered = 8
	enough     = 3
)

// Rates has the holders that the last looks found, and says from them how often locks change hands.
// The zero Rates has seen nothing.
//
// The server does not count how often a lock changes hands, and reporting each time would cost it
// work. So the rate is computed from the looks. If two looks in a row found the same holder, holds
// last longer than the time between looks, and the rate comes from the number of holders. If each
// look found another holder, holds are shorter. Then the rate comes from how long the holds had
// lasted at the looks, which is half of a hold on average. (It is more than half if some holds are
// much longer than others. So the rate shown is rather too small than too large.)
type Rates struct{ past []glimpse }

// glimpse is the result of one look.
type glimpse struct {
	at      time.Time
	holders map[id]holding
}

type holding struct {
	token int64
	held  time.Duration
}

// id names a lock.
type id struct{ kind, name string }

// Add adds a Picture, and sets the rates in it.
func (r *Rates) Add(p *Picture) {
	now := glimpse{p.At, make(map[id]holding, len(p.Locks))}
	for _, l := range p.Locks {
		if l.Holder != nil {
			now.holders[id{l.Kind, l.Name}] = holding{l.Holder.Token, l.Holder.Held}
		}
	}
	r.past = append(r.past, now)
	r.past = r.past[max(0, len(r.past)-remembered):]
	r.forgetBeforePause()
	for i, l := range p.Locks {
		p.Locks[i].Rate = r.rate(id{l.Kind, l.Name})
	}
}

// How long an interval has to be, at least and as a multiple of the latest, so that nobody looked
// in between. An administrator's change is looked at sooner than others.
const (
	leastPause = 10 * time.Second
	pause      = 10
)

// forgetBeforePause drops the looks from before a time in which nobody looked: who held the lock
// meanwhile is not known, and the holders of one look would stand for all that time.
func (r *Rates) forgetBeforePause() {
	n := len(r.past)
	if n < 3 {
		return
	}
	latest := r.past[n-1].at.Sub(r.past[n-2].at)
	for i := n - 2; i > 0; i-- {
		if r.past[i].at.Sub(r.past[i-1].at) > max(leastPause, pause*latest) {
			r.past = r.past[i:]
			return
		}
	}
}

// rate returns how often a lock changes hands per second.
func (r *Rates) rate(lock id) float64 {
	var found, holders int
	var held time.Duration
	var last int64
	for _, g := range r.past {
		h, ok := g.holders[lock]
		if !ok {
			continue
		}
		found++
		held += h.held
		if h.token != last {
			holders++
		}
		last = h.token
	}
	took := r.past[len(r.past)-1].at.Sub(r.past[0].at)
	switch {
	case holders < 2:
		return 0
	case holders < found || found < enough:
		return float64(holders-1) / took.Seconds()
	}
	// The server gives the beginning of a hold in whole milliseconds, so the measured time is half
	// a millisecond too long on average.
	half := max(held/time.Duration(found)-time.Millisecond/2, time.Millisecond/20)
	return float64(found) / float64(len(r.past)) / (2 * half.Seconds())
}
