package redisson

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/lua"
)

const (
	inspectPage = 500 // waiters that one request shows
	listPage    = 100 // keys that one request looks at
)

// Inspect shows a lock as the server sees it: its holder, in Go or in Java, and its line. Java does
// not tell when its waiters came. It takes one round trip, and one more for every 500 waiters, and
// writes nothing.
func (l *Locker) Inspect(ctx context.Context, name string) (*State, error) {
	state, err := l.inspect(ctx, name)
	if err != nil {
		return nil, &Error{Op: "inspect", Name: name, Err: err}
	}
	return state, nil
}

func (l *Locker) inspect(ctx context.Context, name string) (*State, error) {
	keys, err := l.core.Ready(ctx, name)
	if err != nil {
		return nil, err
	}
	state := &State{Name: name}
	for from := 0; ; from += inspectPage {
		if engine.IsClosed(l.closing) {
			return nil, engine.ErrClosed
		}
		var reply []any
		if e := l.core.Await(ctx, func(ctx context.Context) {
			reply, err = l.core.Server.Run(ctx, inspectScript, []string{keys.Record(), keys.Queue(), keys.Waiters()}, from, from+inspectPage-1)
		}); e != nil {
			return nil, e
		}
		if lua.WrongType(err) {
			return &State{Name: name, Damaged: err}, nil
		}
		if err != nil {
			return nil, err
		}
		shown, err := show(state, reply)
		if err != nil || shown < inspectPage {
			return state, err
		}
	}
}

// show adds what a reply of inspect.lua shows, and returns how many waiters that were.
func show(s *State, reply []any) (waiters int, err error) {
	if len(reply) != 6 {
		return 0, lua.WrongReply("inspect", reply)
	}
	pttl, ok := reply[0].(int64)
	holder, ok2 := reply[1].(string)
	count, ok3 := reply[2].(string)
	waiting, ok4 := reply[3].(int64)
	now, ok5 := reply[4].(int64)
	page, ok6 := reply[5].([]any)
	if !ok || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 || len(page)%2 != 0 {
		return 0, lua.WrongReply("inspect", reply)
	}
	if s.Waiting = int(waiting); s.Holder == nil && holder != "" {
		depth, _ := strconv.Atoi(count)
		s.Holder = &Holder{Owner: holder, Depth: depth, Holds: 1, Remaining: until(pttl)}
	}
	if holder == "" && pttl != -2 {
		s.Damaged = errors.New("the key is no lock: it has more than one field")
	}
	for i := 0; i < len(page); i += 2 {
		owner, _ := page[i].(string)
		deadline, _ := page[i+1].(string)
		s.Waiters = append(s.Waiters, Waiter{ID: owner, Owner: owner, Note: stays(deadline, now)})
	}
	return len(page) / 2, nil
}

// stays says for how long a waiter keeps its place, in the words of a note.
func stays(deadline string, now int64) string {
	ms, err := strconv.ParseFloat(deadline, 64)
	if err != nil || ms == 0 {
		return "without a deadline"
	}
	if ms -= float64(now); ms <= 0 {
		return "its deadline has passed"
	}
	left := time.Duration(min(ms, float64(forever/time.Millisecond))) * time.Millisecond
	return "stays for " + left.Round(time.Millisecond).String()
}

// List goes through all locks of Redisson's on the server that are held or waited for, in no order,
// by SCAN of the whole database: fair ones, plain ones and other hashes that look like one. A State
// is as that of Inspect. List takes about two round trips for every hundred keys of the database,
// and one for each lock. It passes over names that no call here may have: those of more than 512
// bytes. An error ends it. On a cluster the error is errors.ErrUnsupported.
func (l *Locker) List(ctx context.Context) iter.Seq2[*State, error] {
	return func(yield func(*State, error) bool) {
		if err := l.list(ctx, func(s *State) bool { return yield(s, nil) }); err != nil {
			yield(nil, &Error{Op: "list", Err: err})
		}
	}
}

func (l *Locker) list(ctx context.Context, yield func(*State) bool) error {
	if _, err := l.core.Ready(ctx, "any"); err != nil {
		return err
	}
	if _, ok := l.rdb.(lua.Cluster); ok {
		return unsupported("List", "on a cluster it would be a SCAN of each master")
	}
	seen := make(map[string]bool)
	for cursor := "0"; ; {
		if engine.IsClosed(l.closing) {
			return engine.ErrClosed
		}
		names, next, err := l.page(ctx, cursor)
		if err != nil {
			return err
		}
		for _, name := range names {
			if seen[name] {
				continue
			}
			seen[name] = true
			given, ours := l.unmapped(name)
			if _, err := l.Keys(given); err != nil || !ours { // one such key must not hide all locks
				continue
			}
			state, err := l.inspect(ctx, given)
			if err != nil {
				return err
			}
			if (state.Holder != nil || state.Waiting > 0) && !yield(state) {
				return nil
			}
		}
		if cursor = next; cursor == "0" {
			return nil
		}
	}
}

// page is the locks among one page of the server's keys, and the next cursor. Its results have no
// names: what the request sets after ctx has ended must not be what is returned.
func (l *Locker) page(ctx context.Context, cursor string) ([]string, string, error) {
	var names []string
	var next string
	var err error
	if e := l.core.Await(ctx, func(ctx context.Context) {
		var keys []string
		if keys, next, err = l.core.Server.ScanPage(ctx, cursor, "*", listPage); err != nil || len(keys) == 0 {
			return
		}
		for _, key := range keys {
			if name, ok := strings.CutPrefix(key, queues+":"); ok {
				names = append(names, unbraced(name))
			}
		}
		var found []any
		found, err = l.core.Server.Run(ctx, listScript, keys)
		for _, index := range found {
			if i, _ := index.(int64); i > 0 && int(i) <= len(keys) {
				names = append(names, keys[i-1])
			}
		}
	}); e != nil {
		return nil, "", e
	}
	if redis.HasErrorPrefix(err, "CROSSSLOT") {
		err = errors.Join(err, errors.ErrUnsupported)
	}
	return names, next, err
}

// unbraced is the name whose keys have this one in braces, or with its own.
func unbraced(name string) string {
	if inner := strings.TrimSuffix(strings.TrimPrefix(name, "{"), "}"); len(inner) == len(name)-2 && !strings.Contains(inner, "{") {
		return inner
	}
	return name
}

// unmapped is the name that a user gave. It is not ours if the mapper maps no name to this one.
func (p *protocol) unmapped(name string) (given string, ours bool) {
	if p.names == nil {
		return name, true
	}
	given = p.names.Unmap(name)
	return given, given != "" && p.names.Map(given) == name
}

// ForceUnlock ends the present ownership of a lock, whoever has it, as forceUnlock does in Java. The
// holder in another process is not told: Go hears of it with its next renewal, and Java never. Until
// then two processes may believe that they have the lock, and no token tells them apart. One round
// trip.
//
//	nil          the ownership was ended
//	ErrNotHeld   nobody had the lock
//	other        the context's, the server's or the connection's. Unless the server refused, the
//	             ownership may have been ended all the same
func (l *Locker) ForceUnlock(ctx context.Context, name string) error {
	return l.core.ReportForce(name, l.force(ctx, name))
}

func (l *Locker) force(ctx context.Context, name string) error {
	keys, err := l.core.Ready(ctx, name)
	if err != nil {
		return err
	}
	script, names := forceScript, []string{keys.Record(), keys.Queue(), keys.Waiters()}
	args := []any{l.publish(), channel(keys), l.ours.Milliseconds()}
	if l.plain {
		script, names, args = plainForceScript, names[:1], args[:2]
	}
	var owner string
	if e := l.core.Await(ctx, func(ctx context.Context) {
		owner, err = l.core.Server.RunText(ctx, script, names, args...)
		if err == nil && owner != "" { // not the next holder, who may be of this process, too
			l.core.ForcedHere(keys.Record(), func(h *engine.Hold) bool { return h.Ticket.ID() == owner })
		}
	}); e != nil {
		return e
	}
	if err == nil && owner == "" {
		err = engine.ErrNotHeld
	}
	return err
}
