package explore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/locks/lua"
)

var errForever = errors.New("a key would stay for ever")

// capture reads the state that a script left behind.
func (e *engine) capture(w *words, before *keys) (keys, error) {
	k := noKeys()
	k.heard = before.heard
	for _, key := range e.mini.Keys() {
		ttl := e.mini.TTL(key)
		end := ms(ttl.Milliseconds())
		if ttl <= 0 {
			return k, fmt.Errorf("%w: %s", errForever, key)
		}
		var err error
		switch key {
		case e.keys.Record:
			k.ends = end
			err = e.captureRecord(w, &k)
		case e.keys.Queue:
			k.lined = end
			err = e.captureQueue(w, &k)
		case e.keys.Waiters:
			k.waitered = end
			err = e.captureWaiters(w, &k)
		case e.keys.Token:
			k.last, err = w.readToken(e.mini.Get(key))
		default:
			err = fmt.Errorf("%w: key %s", errStrange, key)
		}
		if err != nil {
			return k, err
		}
	}
	return k, nil
}

func (w *words) readToken(text string, err error) (int32, error) {
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return w.fromToken(n), err
}

func (e *engine) captureRecord(w *words, k *keys) error {
	fields, err := e.mini.HKeys(e.keys.Record)
	for _, field := range fields {
		value := e.mini.HGet(e.keys.Record, field)
		deadline, _, _ := strings.Cut(value, ":")
		n, _ := strconv.ParseInt(deadline, 10, 64) // of an owner it is not used
		switch {
		case err != nil:
		case field == "owner":
			k.owner, err = w.fromOwner(value)
		case field == "token":
			k.token = w.fromToken(n)
		case field == "lease":
			k.lease = ms(n)
		case field == "since":
		case field == "?":
			k.kept = ms(n - nowMS)
		default:
			var t int8
			t, err = w.fromTicket(field)
			k.holds[t] = ms(n - nowMS)
		}
	}
	if err == nil && k.owner == nobody {
		err = fmt.Errorf("%w: a record without an owner: %q", errStrange, fields)
	}
	return err
}

func (e *engine) captureQueue(w *words, k *keys) error {
	list, err := e.mini.List(e.keys.Queue)
	if err == nil && len(list) > len(k.queue) {
		err = fmt.Errorf("%w: a line of %q", errStrange, list)
	}
	if err != nil {
		return err
	}
	for i, text := range list {
		place, ticket, _ := strings.Cut(text, ":")
		n, err := strconv.ParseInt(place, 10, 64)
		if err != nil {
			return err
		}
		t, err := w.fromTicket(ticket)
		if err != nil {
			return err
		}
		k.queue[i] = element{w.fromPlace(n), t}
	}
	k.length = int8(len(list))
	return nil
}

func (e *engine) captureWaiters(w *words, k *keys) error {
	all, err := e.mini.SortedSet(e.keys.Waiters)
	for member, score := range all {
		end := until(score)
		name := member[1:]
		switch {
		case err != nil:
		case member == "?":
			k.gather = end
		case member[0] == '~':
			k.blind[clientNamed(name)] = end
		case member[0] == '^':
			k.passed[clientNamed(name)] = end
		case member[0] == '#':
			var m mark
			m.token, err = w.readToken(name, nil)
			m.ends = end
			if k.forced[0].token == 0 || k.forced[0].token == m.token {
				k.forced[0] = m
			} else {
				k.forced[1] = m
			}
			if k.forced[1].token != 0 && k.forced[0].token > k.forced[1].token {
				k.forced[0], k.forced[1] = k.forced[1], k.forced[0]
			}
		default:
			times := &k.waits
			if member[0] == '!' {
				member, times = name, &k.retired
			}
			var t int8
			t, err = w.fromTicket(member)
			times[t] = end
		}
	}
	return err
}

func clientNamed(name string) int8 {
	for i := range int8(clients) {
		if names[i] == name {
			return i
		}
	}
	return 0
}

// call sends the request with package lua's typed calls.
func (e *engine) call(ctx context.Context, w *words, r *request) (reply, error) {
	caller := e.callers[r.client]
	switch r.verb {
	case enter, try:
		return e.enter(ctx, caller, w, r)
	case leave:
		return e.leave(ctx, caller, w, r)
	case renew:
		left, err := caller.Renew(ctx, []lua.Renewal{w.renewal(e.keys, r)})
		if err != nil {
			return reply{}, err
		}
		return reply{left: ms(left[0].Milliseconds())}, nil
	case reassert:
		left, err := caller.Reassert(ctx, w.renewal(e.keys, r))
		return reply{left: ms(max(left, 0).Milliseconds())}, err
	default:
		done, left, err := caller.Force(ctx, e.keys, w.tokenOf(r.token))
		return reply{done: done, more: left.More}, err
	}
}

func (w *words) renewal(keys lua.Keys, r *request) lua.Renewal {
	return lua.Renewal{
		Keys: keys, Ticket: w.ticket(r.ticket), Token: w.tokenOf(r.token), Since: nowUS - 1000,
		Lease: time.Duration(lease) * time.Millisecond, Depth: 1,
	}
}

func (e *engine) enter(ctx context.Context, caller *lua.Server, w *words, r *request) (reply, error) {
	request := lua.Enter{Keys: e.keys, Try: r.verb == try, Seen: w.tokenOf(r.seen), Lease: time.Duration(lease) * time.Millisecond}
	for _, a := range r.of[:r.n] {
		request.Tickets = append(request.Tickets, lua.EnterTicket{Ticket: w.ticket(a.ticket), Place: lua.Place(w.number(a.place, 0)), Tell: a.tell})
	}
	got, err := caller.Enter(ctx, request)
	if err != nil {
		return reply{}, err
	}
	rep := reply{token: w.fromToken(got.Token), remaining: ms(got.Remaining.Milliseconds()), more: got.More}
	if rep.passing, err = w.passing(got.Grant); err != nil {
		return reply{}, err
	}
	for i, t := range got.Tickets {
		rep.of[i] = told{status: statuses[t.Status], place: w.fromPlace(int64(t.Place))}
		if t.Status == lua.Granted {
			rep.of[i].token, rep.of[i].remaining = w.fromToken(t.Grant.Token), ms(t.Grant.Remaining.Milliseconds())
		}
	}
	return rep, nil
}

func (e *engine) leave(ctx context.Context, caller *lua.Server, w *words, r *request) (reply, error) {
	request := lua.Leave{Keys: e.keys}
	for _, a := range r.of[:r.n] {
		request.Tickets = append(request.Tickets, lua.LeaveTicket{
			Ticket: w.ticket(a.ticket), Place: lua.Place(w.number(a.place, 0)), Token: w.tokenOf(r.token), Retire: a.retire,
		})
	}
	left, err := caller.Leave(ctx, request)
	if err != nil {
		return reply{}, err
	}
	rep := reply{more: left.More}
	if rep.passing, err = w.passing(left.Grant); err != nil {
		return reply{}, err
	}
	for i, s := range left.States {
		rep.of[i].status = statuses[s]
	}
	return rep, nil
}

var statuses = map[lua.Status]status{lua.None: none, lua.Granted: granted, lua.Waiting: waits, lua.Held: heldBy, lua.Gone: gone}

func (w *words) passing(g *lua.Grant) (grant, error) {
	if g == nil {
		return grant{}, nil
	}
	t, err := w.fromTicket(g.Ticket)
	return grant{t, w.fromToken(g.Token), ms(g.Remaining.Milliseconds())}, err
}
