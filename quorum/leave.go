package quorum

import (
	"context"
	"errors"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// abandon makes sure that a call that does not have the lock leaves nothing behind. Locker.mu must
// be held.
func (l *Locker) abandon(c *call) {
	if c.phase == rules.Granted || c.phase == rules.Leaving {
		return
	}
	if c.phase == rules.Waiting {
		l.settle(c, nil, errVanished)
	}
	c.phase = rules.Leaving
	for i := range c.nodes {
		if c.nodes[i].asked {
			l.core.Go(func() { l.leaves(c, i, 0) })
		}
	}
	delete(l.calls, c.ticket.Counter)
}

// errVanished settles a call whose caller no longer listens.
var errVanished = errors.New("the caller is gone")

// leaves gives up whatever the call has at a node. The request is repeated until it is answered, or
// no longer matters.
func (l *Locker) leaves(c *call, i int, token int64) (was lua.Was) {
	l.core.Persist(max(c.ticket.Lease, lua.Liveness), func(ctx context.Context) error {
		var err error
		was, err = l.leave(ctx, c, i, token)
		return err
	})
	return was
}

// leave is one request.
func (l *Locker) leave(ctx context.Context, c *call, i int, token int64) (lua.Was, error) {
	l.mu.Lock()
	late := int64(0)
	if c.nodes[i].late() {
		late = rules.Late.Milliseconds()
	}
	l.mu.Unlock()
	reply, err := l.leaveFor(ctx, i, c.Keys, c.ticket, token, late, false)
	return reply, err
}

func (l *Locker) leaveFor(ctx context.Context, i int, keys lua.Keys, t lua.Ticket, token, late int64, force bool) (lua.Was, error) {
	names := []string{keys.Record(), keys.Queue(), keys.Waiters(), keys.Token(), l.nodeKey(), mark(keys, t)}
	reply, err := l.nodes[i].run(ctx, leaveScript, names,
		t.String(), l.core.ID, token, late, l.channels(), l.set, l.most.Milliseconds(), force)
	if err != nil {
		return "", err
	}
	was, ok := reply[0].(string)
	if len(reply) != 1 || !ok {
		return "", wrongReply("leave", reply)
	}
	return lua.Was(was), nil
}

// PassOn: turns do not pass within a process: a majority of nodes would not know of them.
func (s strategy) PassOn(*engine.Hold) bool { return false }

// LeaveLine: nobody has a turn on the hold of another.
func (s strategy) LeaveLine(*engine.Hold, []lua.LeaveTicket) error { return nil }

// Knows and GiveBack are about strays, for which nobody looks: a grant to nobody is given back when
// its message comes.
func (s strategy) Knows(uint64) bool { return true }

// GiveBack is never called: see Knows.
func (s strategy) GiveBack(lua.Keys, lua.Ticket) {}
