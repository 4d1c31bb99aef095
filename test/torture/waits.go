package torture

import (
	"fmt"
	"strings"
	"time"

	"github.com/fairlock/locks/lua"
)

// hearing is how long a call may not hear of its grant if nothing hinders its process: a message
// may come in two parts with most of a second in between, and the machine has other things to do.
const hearing = time.Second + settling

// heard judges a ticket that got the lock from the line at that time, and no longer holds it.
func (o *order) heard(l *line, ticket string, at int64) {
	c := o.calls[note(ticket)]
	if c == nil || c.antic != "" {
		return
	}
	until := o.now
	if c.ended != 0 {
		until = min(until, c.ended)
	}
	if until-at < int64(hearing) {
		return
	}
	hinders := make([]*trouble, 0, len(o.troubles))
	for _, t := range o.troubles {
		if t.Kind != "tear" {
			hinders = append(hinders, t)
		}
	}
	if free := c.life.undisturbed(hinders, at, until); free > hearing {
		o.unheard = append(o.unheard, fmt.Sprintf("lock %s: %s had it from %s to %s, and its call did not know: %v",
			l.name, ticket, clock(at), clock(o.now), c))
	}
}

// plain notes a change of the record of a lock without a line.
func (o *order) plain(lock string, words []string) {
	all := o.frees[lock]
	last := len(all) - 1
	switch verb := strings.ToUpper(words[0]); {
	case verb == "DEL" || verb == "UNLINK":
		if last < 0 || all[last].to != 0 {
			o.frees[lock] = append(all, stretch{from: o.now})
		}
	case verb == "HSET" && words[2] == "owner" && last >= 0 && all[last].to == 0:
		all[last].to = o.now
	}
}

// taking is how long a lock without a line may be free while a call of the same process waits for
// it. The process knows of a release at once, but the machine has other things to do. The request
// may meet dead connections, as a leave may.
func (l *life) taking() time.Duration { return time.Second + l.leaving() }

// kept lists the calls that waited for a free lock although nothing hindered them and nobody else
// used the lock. After a loss of data nobody is granted a lock for a while.
func (o *order) kept(calls []*call) []string {
	troubles := make([]*trouble, 0, len(o.troubles))
	for _, t := range o.troubles {
		if t.Kind == "loss" {
			longer := *t
			longer.To += int64(lua.Gathering)
			t = &longer
		}
		troubles = append(troubles, t)
	}
	var wrong []string
	for _, c := range calls {
		if !strings.HasPrefix(c.lock, crew) || c.antic != "" || c.how == tries || c.how == nested || c.closed().from != 0 {
			continue
		}
		end := c.ended
		if end == 0 {
			end = o.now
		}
		for _, free := range o.frees[c.lock] {
			from, to := max(c.began, free.from), min(end, free.to)
			if free.to == 0 {
				to = end
			}
			if idle := c.life.undisturbed(troubles, from, max(from, to)); idle > c.life.taking() {
				wrong = append(wrong, fmt.Sprintf("%v waited from %s to %s for a free lock", c, clock(from), clock(to)))
			}
		}
	}
	return wrong
}
