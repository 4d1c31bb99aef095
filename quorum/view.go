package quorum

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlock/locks/lua"
)

// inspected is how many places of a line are shown.
const inspected = 500

// view is what one node says of a lock.
type view struct {
	node    int
	holder  string // a ticket; empty: nobody has the vote
	token   int64
	since   lua.Micros
	now     lua.Micros
	depth   int
	decided bool
	left    int64
	largest int64
	length  int // of the line, with the holder
	line    []place
	rest    int64 // for how long a free vote is given to nobody (ms)
	set     string
	most    int64
}

type place struct {
	ticket string
	at     lua.Micros
}

// decode reads the reply of one node to an inspect.
func (v *view) decode(reply []any) error {
	if len(reply) != 13 {
		return lua.WrongReply("inspect", reply)
	}
	n := numbers(reply)
	line, ok := reply[9].([]any)
	if len(n) != 10 || !ok || len(line)%2 != 0 {
		return lua.WrongReply("inspect", reply)
	}
	v.holder, _ = reply[2].(string)
	v.set, _ = reply[11].(string)
	v.now, v.left, v.token, v.since = lua.Micros(n[0]), n[1], n[2], lua.Micros(n[3])
	v.depth, v.decided, v.length, v.largest, v.rest, v.most = int(n[4]), n[5] == 1, int(n[6]), n[7], n[8], n[9]
	for i := 0; i < len(line); i += 2 {
		ticket, _ := line[i].(string)
		score, _ := line[i+1].(string)
		at, _ := strconv.ParseFloat(score, 64)
		v.line = append(v.line, place{ticket, lua.Micros(at)})
	}
	return nil
}

// vote is who has the node's vote; nil: nobody.
func (v *view) vote() (*Holder, error) {
	if v.holder == "" {
		return nil, nil
	}
	t, err := lua.ParseTicket(v.holder)
	return &Holder{
		Owner: t.Identity(), Note: t.Note, Token: v.token, Depth: v.depth, Holds: 1,
		Since: v.since.Time(), Held: v.now.Sub(v.since), Remaining: max(0, ms(v.left)),
	}, err
}

// shown is the view as State has it.
func (v *view) shown(addr string) NodeView {
	s := NodeView{Node: addr, Decided: v.decided, Token: v.largest, Waiting: v.length}
	s.Vote, _ = v.vote() // an error is told for the lock
	if s.Vote == nil {
		s.Quarantine = ms(v.rest)
	}
	for _, p := range v.line {
		if p.ticket == v.holder {
			s.Waiting--
		}
	}
	return s
}

// holderOf is the ticket that has the lock; empty: nobody is known to have it. A majority of the
// votes is for it. If the nodes that are away may have some of these, it is the one of which a node
// knows that it had a majority; of two, the later one.
func (l *Locker) holderOf(views []view) (ticket string) {
	votes := make(map[string]int)
	latest := int64(0)
	for _, v := range views {
		if votes[v.holder]++; v.holder != "" && votes[v.holder] >= l.need() {
			return v.holder
		}
		if v.decided && v.token > latest {
			ticket, latest = v.holder, v.token
		}
	}
	if votes[ticket]+len(l.nodes)-len(views) < l.need() {
		return ""
	}
	return ticket
}

func (l *Locker) state(name string, views []view, refused []error) *State {
	s := &State{Name: name}
	for i, n := range l.nodes {
		s.Nodes = append(s.Nodes, NodeView{Node: nameOf(n.i, n.rdb), Err: refused[i]})
	}
	holder, decided := l.holderOf(views), false
	for _, v := range views {
		s.Nodes[v.node] = v.shown(s.Nodes[v.node].Node)
		s.Token = max(s.Token, v.largest)
		if v.holder == holder && holder != "" {
			vote, err := v.vote()
			s.Damaged = errors.Join(s.Damaged, err)
			if s.Holder == nil {
				s.Holder = vote
			}
			switch {
			case v.decided && !decided: // the holder has told this node its token; a later vote has another yet
				s.Holder.Token, decided = v.token, true
			case v.decided || !decided:
				s.Holder.Token = max(s.Holder.Token, v.token)
			}
			s.Holder.Depth, s.Holder.Remaining = max(s.Holder.Depth, v.depth), max(s.Holder.Remaining, ms(v.left))
		}
	}
	l.queue(s, views, holder)
	if s.Holder != nil {
		s.Holder.Undecided = !decided
	}
	return s
}

// queue fills in who waits: those whom a majority of nodes has in line, if the nodes that are away
// have them, too. A single node may still have one that has gone, or not yet one that has come.
func (l *Locker) queue(s *State, views []view, holder string) {
	type standing struct {
		place
		nodes int
	}
	var all []*standing
	known := make(map[string]*standing)
	var lengths []int
	whole, now := true, lua.Micros(0) // by the clock that is ahead of the others: places are its
	for _, v := range views {
		now = max(now, v.now)
		length := v.length
		whole = whole && len(v.line) == length
		for _, p := range v.line {
			if p.ticket == holder {
				length--
				continue
			}
			at := known[p.ticket]
			if at == nil {
				at = new(standing)
				known[p.ticket], all = at, append(all, at)
			}
			if at.nodes++; p.at >= at.at {
				at.place = p
			}
		}
		lengths = append(lengths, length)
	}
	slices.SortFunc(all, func(a, b *standing) int {
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.ticket, b.ticket))
	})
	away := len(l.nodes) - len(views)
	for _, at := range all {
		t, err := lua.ParseTicket(at.ticket)
		s.Damaged = errors.Join(s.Damaged, err)
		if at.nodes+away >= l.need() {
			s.Waiters = append(s.Waiters, Waiter{ID: t.ID(), Owner: t.Identity(), Note: t.Note, Since: at.at.Time(), Waited: max(0, now.Sub(at.at))})
		}
	}
	if s.Waiting = len(s.Waiters); !whole { // the nodes have more than they show
		slices.Sort(lengths)
		s.Waiting = max(s.Waiting, lengths[len(l.nodes)-l.need()])
	}
}
