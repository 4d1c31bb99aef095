package torture

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// stretch is a time in which something did not happen.
type stretch struct {
	from, to int64
	what     string
}

func (s stretch) length() time.Duration { return time.Duration(s.to - s.from) }

// recovery is how long after a trouble a process may still be out of reach: a client connects again
// at least once a second, and the machine has other things to do.
const recovery = 2 * time.Second

// past is the age at which a trouble is over, whatever came after it.
const past = time.Minute

// life returns the process of a ticket.
func (o *order) life(ticket string) *life {
	process, _, _ := strings.Cut(note(ticket), "-")
	return o.lives[process]
}

// unreachable reports whether a process may have been without its own channel at some time between
// from and to. A trouble that parts the process from its channel begins such a time. The time ends
// when recovery has passed after that trouble, and after every trouble that kept the process from
// coming back. after says how long after those troubles from was. The troubles are sorted by their
// beginnings.
func (l *life) unreachable(troubles []*trouble, from, to int64) (after int64, away bool) {
	if l.Killed != 0 && to >= l.Killed {
		return 0, true
	}
	first, _ := slices.BinarySearchFunc(troubles, from-past.Nanoseconds(), func(t *trouble, at int64) int { return cmp.Compare(t.From, at) })
	troubles = troubles[first:]
	after = recovery.Nanoseconds()
	for _, t := range troubles {
		if !t.concerns(l) || !t.parts() || t.From > to {
			continue
		}
		end := t.To
		for _, other := range troubles {
			if other.concerns(l) && other.hinders() && other.From <= end+recovery.Nanoseconds() && other.From <= to && other.To >= t.From {
				end = max(end, other.To)
			}
		}
		if late := max(0, from-end); late <= after {
			after, away = late, true
		}
	}
	return after, away
}

func (t *trouble) concerns(l *life) bool { return t.Seat == everybody || t.Seat == l.Seat }

// parts reports whether a trouble can end a subscription. These do not: a trouble that only harms
// scripts, a trouble shorter than it takes to give up a silent connection, and a ping that is
// answered BUSY.
func (t *trouble) parts() bool {
	if t.Kind == machineStood && t.To-t.From < recovery.Nanoseconds() {
		return false
	}
	return t.hinders() && !slices.Contains([]string{"DEBUG SLEEP", "CLIENT PAUSE ALL", "CLIENT KILL normal", "BUSY"}, t.Kind)
}

// hinders reports whether a trouble can keep a process from subscribing again.
func (t *trouble) hinders() bool {
	return !slices.Contains([]string{"delay", "drop", "hold back", "CLIENT PAUSE WRITE", "NOREPLICAS", "OOM", "MISCONF", "NOPERM", "hostile"}, t.Kind)
}

// within makes s the longest stretch from then until now in which the ticket's process was within
// reach.
func (o *order) within(s *stretch, ticket string, from int64, lock string) {
	l := o.life(ticket)
	if l == nil {
		return
	}
	to := o.now
	if l.Killed != 0 {
		to = min(to, l.Killed)
	}
	if c := o.calls[note(ticket)]; c != nil && c.ends() != 0 {
		to = min(to, c.ends())
	}
	for _, d := range o.disturbed(l) {
		if d.to < from {
			continue
		}
		if undisturbed := min(d.from, to) - from; undisturbed > int64(s.length()) {
			*s = stretch{from, from + undisturbed, "lock " + lock + ": " + ticket}
		}
		from = max(from, d.to)
	}
	if to-from > int64(s.length()) {
		*s = stretch{from, to, "lock " + lock + ": " + ticket}
	}
}

// disturbed returns when a process had troubles, or stood still for long.
func (o *order) disturbed(l *life) []stretch {
	all, known := o.disturbances[l]
	if !known {
		for _, s := range l.stills {
			if s.length() >= time.Second { // else each hiccup would begin a new time to wait
				all = append(all, s)
			}
		}
		for _, t := range o.troubles {
			if t.concerns(l) {
				all = append(all, stretch{from: t.From, to: t.To})
			}
		}
		all = merged(all)
		o.disturbances[l] = all
	}
	return all
}
