package rules

import "time"

// remember is for how long, at least, a client knows a token. The server keeps a token for
// lua.TokenKept at least. A client must forget sooner, or it would take a token that expired for a
// lost one.
const remember = time.Minute

// Known is what a client knows of a lock: a token that was given, and the lease of its holder. The
// zero Known is nothing.
type Known struct {
	Token int64
	Lease time.Duration
}

// And is what is known after both: the larger token, and the longest lease that was seen with it.
func (k Known) And(other Known) Known {
	switch {
	case k.Token > other.Token:
		return k
	case k.Token < other.Token:
		return other
	}
	return Known{k.Token, max(k.Lease, other.Lease)}
}

// Memory keeps what is Known of each lock, by record key, for remember at least and four times as
// long at most. With it a client notices that the server has lost data, and says for how long the
// lock may be somebody's. The zero Memory is empty.
type Memory struct {
	recent, older map[string]Known
	turned        time.Time
}

// Note takes in a token that the server gave or told of.
func (m *Memory) Note(record string, known Known, now time.Time) {
	if m.recent == nil || Since(m.turned, now) > remember {
		if Since(m.turned, now) > 2*remember {
			m.recent = nil
		}
		m.older, m.recent, m.turned = m.recent, make(map[string]Known), now
	}
	m.recent[record] = known.And(m.both(record))
}

// Recall returns what is known of a lock: nothing, if nothing was noted lately.
func (m *Memory) Recall(record string, now time.Time) Known {
	if Since(m.turned, now) > 2*remember {
		m.recent, m.older = nil, nil
		return Known{}
	}
	return m.both(record)
}

func (m *Memory) both(record string) Known { return m.recent[record].And(m.older[record]) }
