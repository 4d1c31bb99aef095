package redisson

import (
	"context"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/redact"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// refresh keeps the places of the calls in a fair line, in one request, and lets those ask that may
// have the lock or have lost their place.
func (l *Locker) refresh(at *line, calls []*call, sent time.Time) {
	args := make([]any, 0, 4+len(calls))
	args = append(args, l.ours.Milliseconds(), l.java.Milliseconds(), l.publish(), channel(at.keys))
	byOwner := make(map[string]*call, len(calls))
	for _, c := range calls {
		byOwner[c.owner()] = c
		args = append(args, c.owner())
	}
	keys := []string{at.keys.Record(), at.keys.Queue(), at.keys.Waiters()}
	reply, err := l.core.Server.Run(context.Background(), refreshScript, keys, args...)
	var seen view
	if err == nil {
		seen, err = decodeView(reply)
	}
	err = redact.Error(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.looking.Equal(sent) {
		at.looking = time.Time{}
	}
	over := l.lines[at.keys.Record()] != at || engine.IsClosed(l.closing)
	if err != nil {
		if !over {
			at.failing.Note(l.core, calls[0].Name, err)
		}
		l.core.Settings.Logger.Debug("fairlock: a place in Redisson's line was not refreshed", "lock", at.keys.Record(), "error", err)
		return
	}
	if !slices.Contains(at.calls, at.failed) { // else that one asks again, and may fail again
		at.answered()
	}
	at.seen, at.when = seen, time.Now()
	for _, owner := range append(seen.missing, seen.next) {
		if c := byOwner[owner]; c != nil && !c.asks {
			c.signal()
		}
	}
	switch {
	case over:
	case seen.left > 0:
		at.alarm.By(time.Now().Add(seen.left + rules.AfterEnd))
	case seen.ends > 0: // the lock is free, and the head does not take it
		at.alarm.By(time.Now().Add(max(seen.ends+rules.AfterEnd, soonest)))
	}
}

// view is what a refresh saw of the line.
type view struct {
	left    time.Duration // until the lock ends; 0: it is free, or never ends
	ends    time.Duration // until the head's deadline; 0: nobody is in line
	next    string        // who may have the lock now, of this process; or empty
	missing []string      // who lost their place
	holder  string        // may be empty
	waiting int           // how many are in line
}

func decodeView(reply []any) (v view, err error) {
	if len(reply) != 6 {
		return v, lua.WrongReply("refresh", reply)
	}
	pttl, ok := reply[0].(int64)
	next, ok2 := reply[2].(string)
	missing, ok3 := reply[3].([]any)
	holder, ok4 := reply[4].(string)
	waiting, ok5 := reply[5].(int64)
	if !ok || !ok2 || !ok3 || !ok4 || !ok5 {
		return v, lua.WrongReply("refresh", reply)
	}
	v.left, v.next, v.holder, v.waiting = until(pttl), next, holder, int(waiting)
	if pttl == -2 {
		v.ends, err = millis("refresh", reply[1])
	}
	for _, owner := range missing {
		text, _ := owner.(string)
		v.missing = append(v.missing, text)
	}
	return v, err
}
