package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/locks/lua"
)

// CheckHolder gives back a lock if an answer names one of this client's tickets as the holder and
// no call knows that ticket. The Locker's mutex may be held.
func (c *Core) CheckHolder(keys lua.Keys, holder string, knows func(counter uint64) bool) {
	if counter, ours := c.counterOf(holder); ours && !knows(counter) {
		c.returnStrays(keys)
	}
}

// counterOf is the counter of the ticket that an answer names as a lock's holder. ours is false if
// the ticket is not this client's.
func (c *Core) counterOf(holder string) (counter uint64, ours bool) {
	text, ours := strings.CutPrefix(holder, c.ID)
	text, ends := strings.CutPrefix(text, ":")
	if !ours || !ends {
		return 0, false
	}
	counter, err := strconv.ParseUint(text, 10, 64)
	return counter, err == nil
}

// Issued reports whether this client has issued the ticket.
func (c *Core) Issued(t lua.Ticket) bool { return t.Client == c.ID && t.Counter <= c.counter.Load() }

// Message reads a message of the server to this client, and of which lock it tells. A message that
// makes no sense is reported: the scripts did not send it.
func (c *Core) Message(payload string) (m lua.Message, keys lua.Keys, err error) {
	m, err = lua.ParseMessage(payload)
	if err == nil {
		keys, err = lua.KeysOf(c.Settings.Prefix, m.Record)
	}
	if err == nil && !c.Issued(m.Ticket) {
		err = fmt.Errorf("message %.200q: its ticket was never given out here", payload)
	}
	if err != nil {
		c.Nonsense(err)
	}
	return m, keys, err
}

// Nonsense reports a message that the scripts did not send. It logs once a minute at most, because
// anybody who may publish may do so a million times.
func (c *Core) Nonsense(err error) {
	c.nonsense.Add(1)
	now := time.Now().UnixNano()
	if last := c.reported.Load(); now-last < int64(time.Minute) && last != 0 || !c.reported.CompareAndSwap(last, now) {
		return
	}
	c.Settings.Logger.Warn("fairlock: a message on our channel makes no sense", "error", err, "messages", c.nonsense.Swap(0))
}

// returnStrays gives back, in the background, tickets of this client that have a lock though no
// call of the client knows them: their requests were executed when no call waited for them any
// more. It is called after an answer has named one. Most are none: a ticket that was unlocked
// meanwhile is not known any more either. So a lock is looked at once a second at most.
func (c *Core) returnStrays(keys lua.Keys) {
	if _, looked := c.looked.LoadOrStore(keys, true); looked {
		return
	}
	time.AfterFunc(time.Second, func() { c.looked.Delete(keys) })
	c.Go(func() {
		state, err := c.Server.Inspect(context.Background(), keys, 0, 0)
		if err != nil {
			return // the next answer names the stray again
		}
		for _, h := range state.Holds {
			if h.Ticket.Client == c.ID && !c.strategy.Knows(h.Ticket.Counter) {
				c.strategy.LeaveStray(keys, h.Ticket)
			}
		}
	})
}
