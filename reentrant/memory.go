package reentrant

import "time"

// remember is how long a token is worth knowing: well below the ten minutes that the server keeps it at least, so that one
// that expired there is not taken for one that was lost.
const remember = time.Minute

// Memory keeps the largest recent token of each lock, by record key (or ticket), and the longest lease that was seen with it,
// for one to two times remember. With them a client notices that the server has lost data, and says for how long the
// lock may be somebody's. The zero Memory is empty; it is not safe for concurrent use.
type Memory struct {
	recent, older map[string]sight
	turned        time.Time
}

type sight struct {
	token int64
	lease time.Duration
}

// and is what is known after both.
func (s sight) and(other sight) sight {
	switch {
	case s.token > other.token:
		return s
	case s.token < other.token:
		return other
	}
	return sight{s.token, max(s.lease, other.lease)}
}

// Note takes in a token that the server gave or told of, and the lease of who has the lock with it, 0 if nobody does.
func (m *Memory) Note(record string, token int64, lease time.Duration) {
	if now := time.Now(); m.recent == nil || now.Sub(m.turned) > remember {
		if now.Sub(m.turned) > 2*remember {
			m.recent = nil
		}
		m.older, m.recent, m.turned = m.recent, make(map[string]sight), now
	}
	m.recent[record] = sight{token, lease}.and(m.recall(record))
}

// Empty reports whether nothing was ever noted.
func (m *Memory) Empty() bool { return m.recent == nil && m.older == nil }

// Recall is the largest token noted, and its lease; 0 if there was none lately.
func (m *Memory) Recall(record string) (token int64, lease time.Duration) {
	if time.Since(m.turned) > 2*remember {
		return 0, 0
	}
	known := m.recall(record)
	return known.token, known.lease
}

func (m *Memory) recall(record string) sight { return m.recent[record].and(m.older[record]) }
