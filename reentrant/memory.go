package reentrant

import "time"

// remember is how long a token is worth knowing: well below the ten minutes that the server keeps it at least, so that one
// that expired there is not taken for one that was lost.
const remember = time.Minute

// Memory keeps the largest recent token of each lock, by record key (or ticket), and the longest recent lease, for one to two
// times remember. With them a client notices that the server has lost data, and says for how long the lock may be
// somebody's. The zero Memory is empty; it is not safe for concurrent use.
type Memory struct {
	recent, older map[string]sight
	turned        time.Time
}

type sight struct {
	token int64
	lease time.Duration
}

// Note takes in what the server gave or told of.
func (m *Memory) Note(record string, token int64, lease time.Duration) {
	if now := time.Now(); m.recent == nil || now.Sub(m.turned) > remember {
		if now.Sub(m.turned) > 2*remember {
			m.recent = nil
		}
		m.older, m.recent, m.turned = m.recent, make(map[string]sight), now
	}
	t, l := m.Recall(record)
	m.recent[record] = sight{max(token, t), max(lease, l)}
}

// Recall is the largest token and the longest lease noted, 0 if there was none lately.
func (m *Memory) Recall(record string) (token int64, lease time.Duration) {
	if time.Since(m.turned) > 2*remember {
		return 0, 0
	}
	recent, older := m.recent[record], m.older[record]
	return max(recent.token, older.token), max(recent.lease, older.lease)
}
