package top

import "time"

// How many of the last looks tell how fast a lock changes hands, and how many of them must have
// found it held for the time that it was to count.
const (
	remembered = 8
	enough     = 3
)

// memory is what the last looks showed of the holders.
//
// How often a lock changes hands is not kept by the server, and to be told of each time would be
// work for it. So it is worked out from the looks. If some look finds the holder of the one before,
// holds are longer than looks are apart, and holders are counted. If each finds another, holds are
// shorter, and for how long they have lasted when they are looked at tells how long they are: half
// of a hold on average. (More than half if some are much longer than others, so rather too few
// hand-overs are shown than too many.)
type memory []glimpse

// glimpse is what one look showed.
type glimpse struct {
	at      time.Time
	holders map[string]holding
}

type holding struct {
	token int64
	held  time.Duration
}

// rates adds a Picture to the memory, and the rates to it.
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

// rate is how often a lock changes hands in a second.
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
	// Since when it is held is known in whole milliseconds: half of one is not true of it on
	// average.
	half := max(held/time.Duration(found)-time.Millisecond/2, time.Millisecond/20)
	return float64(found) / float64(len(m)) / (2 * half.Seconds())
}
