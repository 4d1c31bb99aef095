package top

import "time"

// How many of the last looks to remember, and how many of them must have found the lock held for
// its holding time to count.
const (
	remembered = 8
	enough     = 3
)

// memory has the holders that the last looks found.
//
// The server does not count how often a lock changes hands, and reporting each time would cost it
// work. So the rate is computed from the looks. If two looks in a row found the same holder, holds
// last longer than the time between looks, and the rate comes from the number of holders. If each
// look found another holder, holds are shorter. Then the rate comes from how long the holds had
// lasted at the looks, which is half of a hold on average. (It is more than half if some holds are
// much longer than others. So the rate shown is rather too small than too large.)
type memory []glimpse

// glimpse is the result of one look.
type glimpse struct {
	at      time.Time
	holders map[string]holding
}

type holding struct {
	token int64
	held  time.Duration
}

// rates adds a Picture to the memory, and sets the rates in the Picture.
func (m *memory) rates(p *Picture) {
	now := glimpse{p.At, make(map[string]holding, len(p.Locks))}
	for _, l := range p.Locks {
		if l.Holder != nil {
			now.holders[l.Name] = holding{l.Holder.Token, l.Holder.Held}
		}
	}
	*m = append(*m, now)
	*m = (*m)[max(0, len(*m)-remembered):]
	for i := range p.Locks {
		p.Locks[i].Rate = m.rate(p.Locks[i].Name)
	}
}

// rate returns how often a lock changes hands per second.
func (m memory) rate(name string) float64 {
	var found, holders int
	var held time.Duration
	var last int64
	for _, g := range m {
		h, ok := g.holders[name]
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
	took := m[len(m)-1].at.Sub(m[0].at)
	switch {
	case holders < 2:
		return 0
	case holders < found || found < enough:
		return float64(holders-1) / took.Seconds()
	}
	// The server gives the beginning of a hold in whole milliseconds, so the measured time is half
	// a millisecond too long on average.
	half := max(held/time.Duration(found)-time.Millisecond/2, time.Millisecond/20)
	return float64(found) / float64(len(m)) / (2 * half.Seconds())
}
