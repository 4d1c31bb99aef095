package reentrant

import "time"

// remember is how long a token is worth knowing: well below the ten minutes that the server keeps it at least, so that one
// that expired there is not taken for one that was lost.
const remember = time.Minute

// Memory keeps the largest recent token of each lock, by record key (or ticket), for one to two times remember. With it a
// client notices that the server has lost data. The zero Memory is empty; it is not safe for concurrent use.
type Memory struct {
	recent, older map[string]int64
	turned        time.Time
}

// Note takes in a token that the server gave or told of.
func (m *Memory) Note(record string, token int64) {
	if now := time.Now(); m.recent == nil || now.Sub(m.turned) > remember {
		if now.Sub(m.turned) > 2*remember {
			m.recent = nil
		}
		m.older, m.recent, m.turned = m.recent, make(map[string]int64), now
	}
	m.recent[record] = max(token, m.Recall(record))
}

// Recall is the largest token noted, 0 if none was lately.
func (m *Memory) Recall(record string) int64 {
	if time.Since(m.turned) > 2*remember {
		return 0
	}
	return max(m.recent[record], m.older[record])
}
