package web

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/fairlock"
)

// lockPage is the page of one lock.
type lockPage struct {
	frame
	Name, Kind string
	Alarm      string // what is wrong with it
	Damaged    string
	Seen       bool // all below is known
	Free       bool
	Holder     string
	Facts      []label
	Force      string // the address that asks whether to force; "": that is not possible
	Plots      []plot
	Lined      bool // this kind of lock has a line
	Waiters    []place
	Pager      pager
	Lately     []said
}

// place is a waiter in line.
type place struct {
	ID, Who, Ticket, Evict string
	Place, Waited          string
}

// said is something that was overheard.
type said struct {
	ID, At, What, Who, Token, Lock, Href string
	Alarming                             bool
}

// keyOf returns the lock that a request names, as it stands in the address.
func keyOf(r *http.Request) key {
	query := r.URL.Query()
	if query.Get("kind") == locks.Plain {
		return key{locks.Plain, query.Get("name")}
	}
	return key{locks.Fair, query.Get("name")}
}

// lock makes the page of one lock.
func (s *site) lock(r *http.Request) (page any, in *frame) {
	k := keyOf(r)
	v := s.watcher.see(r.Context(), k)
	p := &lockPage{frame: s.frame(v), Name: look.Plain(k.name), Kind: k.kind, Lined: k.kind == locks.Fair}
	p.Title = p.Name + " · " + s.server
	from := r.URL.Query().Get("from")
	p.Stream = k.href("/events", "from", from)
	if v.state == nil {
		return p, &p.frame
	}
	p.Seen = true
	p.holder(s, k, v.state)
	first, end, pager := pages(r.URL.Query(), len(v.state.Waiters), func(from string) string { return k.href("/lock", "from", from) })
	p.Pager = pager
	for i, w := range v.state.Waiters[first:end] {
		at := place{ID: short("waiter", w.ID), Place: look.Count(first + i + 1), Waited: look.Span(w.Waited), Who: who(w), Ticket: look.Plain(w.ID)}
		if s.changes {
			at.Evict = k.href("/evict", "id", w.ID)
		}
		p.Waiters = append(p.Waiters, at)
	}
	s.watcher.mu.Lock()
	trail := s.watcher.trails[k]
	s.watcher.mu.Unlock()
	p.Plots = plots(trail, v.looked)
	if !p.Lined {
		p.Plots = p.Plots[1:]
	}
	p.Lately = sayings(v.lately)
	return p, &p.frame
}

// holder says who has the lock.
func (p *lockPage) holder(s *site, k key, state *fairlock.State) {
	if state.Damaged != nil {
		p.Damaged = look.Error(state.Damaged)
	}
	p.Alarm = alarm(state.Holder, p.Damaged, state.Waiting)
	h := state.Holder
	p.Holder = look.Holder(h)
	if p.Free = h == nil; p.Free {
		return
	}
	p.Facts = []label{
		{"held for", look.Span(h.Held)},
		{"lease ends in", look.Span(h.Remaining)},
		{"token", strconv.FormatInt(h.Token, 10)},
		{"depth", look.Count(h.Depth) + " in " + strconv.Itoa(h.Holds) + map[bool]string{true: " hold", false: " holds"}[h.Holds == 1]},
		{"owner", look.Plain(h.Owner)},
		{"since", h.Since.Local().Format(time.DateTime + " " + zone)},
	}
	if s.changes {
		p.Force = k.href("/force", "token", strconv.FormatInt(h.Token, 10))
	}
}

// who names a waiter.
func who(w fairlock.Waiter) string { return look.Plain(look.Waiter(w.ID, w.Owner, w.Note)) }

// alarm says what is wrong with a lock, if anything is.
func alarm(h *fairlock.Holder, damaged string, waiting int) string {
	switch {
	case damaged != "":
		return "damaged"
	case h == nil && waiting > 0:
		return "free, and waited for"
	case h != nil && h.Owner == "":
		return "forgotten by the server"
	}
	return ""
}

// sayings is what was overheard, as people read it.
func sayings(lately []happening) (all []said) {
	for _, h := range lately {
		s := said{
			ID: short("said", strconv.FormatInt(h.At.UnixNano(), 10), h.Lock.name, h.What), At: h.At.Format("15:04:05"), What: h.What, Who: h.Who,
			Lock: look.Plain(h.Lock.name), Href: h.Lock.href("/lock"), Alarming: h.Alarming,
		}
		if h.Token != 0 {
			s.Token = strconv.FormatInt(h.Token, 10)
		}
		all = append(all, s)
	}
	return all
}

// short returns an id for an element of the page that no name can spoil.
func short(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return parts[0] + "-" + hex.EncodeToString(sum[:8])
}
