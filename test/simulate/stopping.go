package simulate

import (
	"strings"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
)

// stopping judges a leave of a lock whose lease could not be renewed: its user has the margin to
// stop (1).
func (l *look) stopping(lk *lock, was *state) {
	if l.verb != "leave" || l.by.closing || l.by.crashed {
		return
	}
	ticket, err := lua.ParseTicket(l.gives(was))
	if err != nil {
		return
	}
	span := min(ticket.Lease, lua.Claim)
	if g := lk.grants[was.token]; g != nil {
		span = min(span, g.written)
	}
	for _, b := range l.r.beliefs {
		if b.lk != lk || b.by != l.by || b.token != was.token || !single(b.owner) {
			continue
		}
		stopped := b.lease.Deadline().Add(fairlock.Margin(span) + l.r.w.plan.Break.Stop)
		if err := b.lease.Err(); err != nil && strings.Contains(err.Error(), "its lease ended before it could be renewed") && time.Now().Before(stopped) {
			l.r.violated(1, "%s: %s may be stopping until %v, and its token %d left", lk.name, l.by.name, stopped.Sub(l.r.w.start), b.token)
		}
	}
}

// gives returns the ticket that had the lock and leaves; "": none.
func (l *look) gives(was *state) string {
	for ticket := range was.holds {
		if l.names(ticket) {
			return ticket
		}
	}
	return ""
}
