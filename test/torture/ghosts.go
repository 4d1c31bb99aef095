package torture

import (
	"fmt"
	"time"
)

// A ghost is a ticket that stands in line or holds a lock after its call has ended. The ghost's
// process sends a leave until the server answers. So a ghost vanishes soon after its process can
// reach the server again.

// ends returns when a call was over, together with its lease if it had one; 0: never.
func (c *call) ends() int64 {
	switch {
	case c.broke != 0:
		return c.broke
	case c.token != 0:
		return c.released
	}
	return c.ended
}

// gave reports whether a call had given up its place by then, or was about to because its Locker
// was being closed.
func (c *call) gave(now int64) bool {
	end, closing := c.ends(), c.closed().from
	return end != 0 && end <= now || closing != 0 && closing <= now
}

// settling is how long after a trouble new connections take: a client tries once a second, and the
// machine has other things to do.
const settling = time.Second

// leaving is how long a process needs for a leave once nothing hinders it. Two connections may be
// dead without its knowledge. Each costs a timeout, and up to a second until the next attempt.
func (l *life) leaving() time.Duration { return 2*(l.Timeout+time.Second) + settling }

// undisturbed returns for how much of the time between from and to the process had no trouble.
func (l *life) undisturbed(troubles []*trouble, from, to int64) time.Duration {
	if l.Killed != 0 {
		to = min(to, l.Killed)
	}
	sum := int64(0)
	for _, t := range troubles { // in the order in which they began
		if !t.concerns(l) || t.To+settling.Nanoseconds() < from {
			continue
		}
		if t.From >= to {
			break
		}
		sum += max(0, t.From-from)
		from = max(from, t.To+settling.Nanoseconds())
	}
	return time.Duration(sum + max(0, to-from) - l.stood(from, max(from, to)))
}

// haunt notes which tickets are in line or hold the lock. It judges the tickets that no longer do.
func (o *order) haunt(l *line) {
	here := make(map[string]bool, len(l.queue)+1)
	for _, w := range l.queue {
		here[w.ticket] = true
	}
	if l.record != "" {
		here[l.record] = true
	}
	for ticket, since := range l.since {
		if !here[ticket] {
			o.haunted(l, ticket, since)
			delete(l.since, ticket)
		}
	}
	for ticket, at := range l.handed {
		if ticket != l.record {
			o.heard(l, ticket, at)
			delete(l.handed, ticket)
		}
	}
	for ticket := range here {
		if l.since[ticket] == 0 {
			l.since[ticket] = o.now
		}
	}
}

// haunted judges a ticket that was there from since until now.
func (o *order) haunted(l *line, ticket string, since int64) {
	c := o.calls[note(ticket)]
	if c == nil || c.ends() == 0 || !alone(ticket) || !c.owes() {
		return
	}
	from := max(since, c.ends())
	if from >= o.now {
		return
	}
	o.left++
	if o.now-from > int64(o.longest.length()) {
		o.longest = stretch{from, o.now, ticket}
	}
	if free := c.life.undisturbed(o.troubles, from, o.now); free > c.life.leaving() {
		o.ghosts = append(o.ghosts, fmt.Sprintf("lock %s: %s was there from %s to %s, for %v of which nothing hindered its process, and its call had ended: %v",
			l.name, ticket, clock(from), clock(o.now), free.Round(time.Millisecond), c))
	}
}

// owes reports whether a call must take back its ticket however long that takes. A closed Locker
// gives up after a second.
func (c *call) owes() bool { return c.closed().from == 0 }

func (o *order) owes(ticket string) bool {
	c := o.calls[note(ticket)]
	return c == nil || c.owes()
}

// nobodys lists locks that a forgotten ticket still holds for minutes after all processes have
// gone. The holders' processes were not killed. holders are the tickets, by key.
func nobodys(o *order, holders map[string][]string) []string {
	var wrong []string
	for key, tickets := range holders {
		for _, ticket := range tickets {
			if l := o.life(ticket); l != nil && l.Killed == 0 && o.owes(ticket) {
				wrong = append(wrong, fmt.Sprintf("%s is held by %s, of %v", key, ticket, o.calls[note(ticket)]))
			}
		}
	}
	return wrong
}
