package simulate

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/simulate/stage"
)

// state is a lock as the server has it at one instant.
type state struct {
	at        time.Time // by the server's clock
	ms        int64     // the same time
	token     int64     // of the record; 0: there is none
	last      int64     // the token key
	holds     map[string]int64
	kept      bool      // the record waits for a holder that the server has forgotten
	keptUntil time.Time // by the server's clock
	line      []place
	set       map[string]float64
	naked     []string // keys without an end
}

// place is one element of a line.
type place struct {
	at     int64
	ticket string
}

// read looks at a lock without a trace on the server.
func (s *redisServer) read(k keys) *state {
	s.Mini.SetTime(s.now())
	now := s.now()
	st := &state{at: now, ms: now.UnixMilli(), holds: map[string]int64{}}
	fields, _ := s.Mini.HKeys(k.record)
	for _, field := range fields {
		value := s.Mini.HGet(k.record, field)
		switch {
		case field == "token":
			st.token, _ = strconv.ParseInt(value, 10, 64)
		case field == "kept":
			st.kept = deadline(value) > st.ms
			st.keptUntil = time.UnixMilli(deadline(value))
		case strings.Contains(field, ":"):
			st.holds[field] = deadline(value)
		}
	}
	text, _ := s.Mini.Get(k.token)
	st.last, _ = strconv.ParseInt(text, 10, 64)
	elements, _ := s.Mini.List(k.queue) // the slice belongs to miniredis too
	for _, element := range elements {
		at, ticket, _ := strings.Cut(element, ":")
		n, _ := strconv.ParseInt(at, 10, 64)
		st.line = append(st.line, place{n, ticket})
	}
	set, _ := s.Mini.SortedSet(k.waiters)
	st.set = maps.Clone(set) // the map belongs to miniredis
	for _, key := range []string{k.record, k.queue, k.waiters, k.token} {
		if s.Mini.Exists(key) && s.Mini.TTL(key) <= 0 {
			st.naked = append(st.naked, key)
		}
	}
	return st
}

func deadline(hold string) int64 {
	text, _, _ := strings.Cut(hold, ":")
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// held reports whether the lock has a holder, or is kept for one that may come back.
func (st *state) held() bool {
	for _, deadline := range st.holds {
		if deadline > st.ms {
			return true
		}
	}
	return st.kept
}

// busy reports whether a try may be turned away: somebody has the lock, or comes first.
func (st *state) busy() bool {
	return st.token != 0 || st.held() || len(st.line) > 0 || st.marked("?")
}

// latest returns when the last hold ends, by the server's clock (ms).
func (st *state) latest() (ms int64) {
	for _, deadline := range st.holds {
		ms = max(ms, deadline)
	}
	return ms
}

// marked reports whether a mark in the set is in force. After the server's clock was set back, one
// that would last longer than any is none.
func (st *state) marked(mark string) bool {
	score, ok := st.set[mark]
	left := int64(-score) - st.ms
	return ok && left > 0 && left <= lua.MarkTTL.Milliseconds()
}

// waits reports whether a ticket is in line.
func (st *state) waits(ticket string) bool {
	for _, p := range st.line {
		if p.ticket == ticket {
			return true
		}
	}
	return false
}

// ownerOf returns the owner that a ticket names, or its call.
func ownerOf(ticket string) string {
	if part := strings.Split(ticket, ":"); len(part) > 3 && part[3] != "" {
		return part[3]
	}
	return stage.CallOf(ticket)
}

// owned reports whether one of the holds belongs to the owner.
func (st *state) owned(owner string) bool {
	for ticket := range st.holds {
		if ownerOf(ticket) == owner {
			return true
		}
	}
	return false
}

// shares reports whether the holders have the same owner as the holders before.
func (st *state) shares(was *state) bool {
	for ticket := range was.holds {
		if st.owned(ownerOf(ticket)) {
			return true
		}
	}
	return false
}

// prefix returns what the keys and channels of the locks begin with.
func (p Plan) prefix() string {
	if p.Plain {
		return "fairlock:plain"
	}
	return "fairlock"
}

// keys are the names of one lock's keys.
type keys struct{ record, queue, waiters, token string }

func keysOf(prefix, name string) keys {
	key := func(kind string) string { return prefix + ":" + kind + ":{" + name + "}" }
	return keys{key("lock"), key("queue"), key("waiters"), key("token")}
}

// nameOf returns the lock that a record belongs to.
func nameOf(record string) string {
	_, name, _ := strings.Cut(record, "{")
	return strings.TrimSuffix(name, "}")
}
