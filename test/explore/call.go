package explore

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/locks/lua"
)

// call sends the request with package lua's typed calls.
func (e *engine) call(ctx context.Context, w *words, r *request) (reply, error) {
	caller := e.callers[r.client]
	switch r.verb {
	case enter, try:
		return e.enter(ctx, caller, w, r)
	case leave:
		return e.leave(ctx, caller, w, r)
	case renew:
		renewed := caller.Renew(ctx, []lua.Renewal{w.renewal(e.keys, r)})[0]
		return reply{left: ms(renewed.Remaining.Milliseconds())}, renewed.Err
	case reassert:
		renewed := caller.Reassert(ctx, w.renewal(e.keys, r))
		return reply{left: ms(renewed.Remaining.Milliseconds())}, renewed.Err
	default:
		done, left, err := caller.Force(ctx, e.keys, w.tokenOf(r.token))
		return reply{done: done, more: left.More}, err
	}
}

func (w *words) renewal(keys lua.Keys, r *request) lua.Renewal {
	return lua.Renewal{
		Keys: keys, Ticket: w.of(r.ticket), Token: w.tokenOf(r.token), Since: nowUS - 1000,
		Lease: time.Duration(lease) * time.Millisecond, Depth: 1,
	}
}

func (e *engine) enter(ctx context.Context, caller *lua.Server, w *words, r *request) (reply, error) {
	request := lua.Enter{Try: r.verb == try, Some: r.some, Seen: w.tokenOf(r.seen), Spare: time.Duration(lease) * time.Millisecond}
	for _, a := range r.of[:r.n] {
		request.Tickets = append(request.Tickets, lua.EnterTicket{Ticket: w.of(a.ticket), Place: lua.Place(w.number(a.place, 0)), Tell: a.tell})
	}
	got, err := caller.Enter(ctx, e.keys, request)
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
	var tickets []lua.LeaveTicket
	for _, a := range r.of[:r.n] {
		tickets = append(tickets, lua.LeaveTicket{
			Ticket: w.of(a.ticket), Place: lua.Place(w.number(a.place, 0)), Retire: a.retire,
		})
	}
	tickets[0].Token = w.tokenOf(r.token)
	left, err := caller.Leave(ctx, e.keys, tickets)
	if err != nil {
		return reply{}, err
	}
	rep := reply{more: left.More}
	if rep.passing, err = w.passing(left.Grant); err != nil {
		return reply{}, err
	}
	for i, s := range left.Were {
		rep.of[i].status = was[s]
	}
	return rep, nil
}

var (
	statuses = map[lua.Status]status{lua.Granted: granted, lua.Waiting: waits, lua.Taken: taken, lua.Gone: gone, lua.ForceEnded: wasForced}
	was      = map[lua.Was]status{lua.Held: heldBy, lua.Waited: waits, lua.Forced: wasForced, lua.Neither: none}
)

func (w *words) passing(g *lua.OtherGrant) (grant, error) {
	if g == nil {
		return grant{}, nil
	}
	t, err := w.fromTicket(g.Ticket.String())
	return grant{t, w.fromToken(g.Token), ms(g.Remaining.Milliseconds()), g.Run != ""}, errors.Join(err, runOf(t, g.Run))
}
