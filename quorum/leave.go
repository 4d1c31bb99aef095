package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// abandon makes sure that a call that does not have the lock leaves nothing behind. Locker.mu must
// be held.
func (l *Locker) abandon(c *call) {
	if c.Phase == rules.Granted || c.Phase == rules.Leaving {
		return
	}
	if c.Phase == rules.Waiting {
		l.settle(c, nil, errVanished)
	}
	c.Phase = rules.Leaving
	for i := range l.nodes {
		if c.Asked(i) {
			l.crew.run(func() { l.leaves(context.Background(), c, i, 0, l.nodes[i].server, func(lua.Was, bool, error) {}) })
		}
	}
	delete(l.calls, c.ticket.Counter)
}

// errVanished settles a call whose caller no longer listens.
var errVanished = errors.New("the caller is gone")

// leaves gives up whatever the call has at a node, and then says what that was, whether a request
// before that one was not answered, and why nobody knows. The first is sent by that Server; if ctx
// ends, it may fail. In the background it is repeated until it is answered, or no longer matters.
func (l *Locker) leaves(ctx context.Context, c *call, i int, token int64, by *lua.Server, then func(was lua.Was, again bool, err error)) {
	var was lua.Was
	err, sent := lua.ErrCutShort, time.Now()
	defer func() {
		// As Persist has it: a Close waits for this.
		spare := time.Since(sent) < lastWords && rules.Shortly(err)
		if err == nil || !rules.Retryable(err) || engine.IsClosed(l.closing) && !spare {
			then(was, false, err)
			return
		}
		again := lua.Unanswered(err)
		l.crew.run(func() { l.leavesAgain(c, i, token, again, then) })
	}()
	was, err = l.leave(ctx, by, c, i, token)
}

// leavesAgain repeats a leave.
func (l *Locker) leavesAgain(c *call, i int, token int64, again bool, then func(was lua.Was, again bool, err error)) {
	l.mu.Lock()
	lease := max(c.ticket.Lease, c.longest, lua.Liveness)
	l.mu.Unlock()
	var was lua.Was
	var err error
	l.core.Persist(lease, func(ctx context.Context) error {
		err = lua.ErrCutShort // unless leave returns
		defer func() { again = again || lua.Unanswered(err) }()
		was, err = l.leave(ctx, l.nodes[i].server, c, i, token)
		return err
	})
	then(was, again, err)
}

// leave is one request.
func (l *Locker) leave(ctx context.Context, by *lua.Server, c *call, i int, token int64) (lua.Was, error) {
	l.mu.Lock()
	late := int64(0)
	if c.Open(i) {
		late = rules.Late.Milliseconds()
	}
	l.mu.Unlock()
	return l.sendLeave(ctx, by, i, l.leaveCommand(l.nodes[i], c.keys, c.arg, token, late, itself))
}

// taking says who has a ticket leave.
type taking int

const (
	itself  taking = iota // its call
	byForce               // an administrator, also from a vote
	evicted               // an administrator, from the line alone
)

func (l *Locker) leaveCommand(n *node, keys []any, ticket any, token, late int64, by taking) []any {
	if late == 0 && by == itself {
		return leaveScript.CommandOn(keys, ticket, n.arg, l.args.most, token)
	}
	return leaveScript.CommandOn(keys, ticket, n.arg, l.args.most, token, late, int(by))
}

// keysOf are the keys of scripts about one ticket.
func (l *Locker) keysOf(keys lua.Keys, t lua.Ticket) []any {
	return []any{keys.Record(), keys.Queue(), keys.Waiters(), keys.Token(), l.args.node, l.mark(keys, t)}
}

// leaveFor leaves for a ticket that has no Lease.
func (l *Locker) leaveFor(ctx context.Context, i int, keys lua.Keys, t lua.Ticket, late int64, by taking) (lua.Was, error) {
	return l.sendLeave(ctx, l.nodes[i].server, i, l.leaveCommand(l.nodes[i], l.keysOf(keys, t), t.String(), 0, late, by))
}

func (l *Locker) sendLeave(ctx context.Context, by *lua.Server, i int, command []any) (lua.Was, error) {
	reply, err := l.nodes[i].send(ctx, by, leaveScript, command)
	if err != nil {
		return "", err
	}
	if len(reply) != 1 {
		return "", lua.WrongReply("leave", reply)
	}
	if was, ok := reply[0].(string); ok {
		return lua.Was(was), nil
	}
	if reply[0] == int64(1) {
		return lua.Held, nil
	}
	return "", lua.WrongReply("leave", reply)
}

// PassOn: turns do not pass within a process: a majority of nodes would not know of them.
func (s strategy) PassOn(*engine.Hold) bool { return false }

// LeaveLine: nobody has a turn on the hold of another.
func (s strategy) LeaveLine(*engine.Hold, []lua.LeaveTicket) error { return nil }

// Knows and LeaveStray are about strays, for which nobody looks: a grant to nobody is given back
// when its message comes.
func (s strategy) Knows(uint64) bool { return true }

// LeaveStray is never called: see Knows.
func (s strategy) LeaveStray(lua.Keys, lua.Ticket) {}
