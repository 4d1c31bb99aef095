package quorum

import (
	"context"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/redact"
	"github.com/fairlock/locks/lua"
)

// NodeStatus is what one node says of itself.
type NodeStatus struct {
	Node string // its address
	// Err is why the node is of no use to the quorum: it does not answer, it may not say INFO, or
	// the server is another node, or of another quorum. Only in the last case all below is set.
	Err error
	// Run is the server's run id: another one after every start, and the same for two addresses of
	// one server. It is empty if the server has none.
	Run string
	// Set and LongestLease are the quorum that the node keeps itself to belong to, and Number is
	// which of its nodes it is, from 1 on. They are empty if it was never asked for a lock, or has
	// forgotten that it was.
	Set          string
	Number       int
	LongestLease time.Duration
	// Quarantine is for how long the node grants nothing, because it may have forgotten what it
	// granted. While nobody has asked it for a lock yet, that is the longest lease, or 3 s and a
	// claim if that is longer.
	Quarantine time.Duration
	// Clock is how far the node's clock is ahead of ours, and Within how wrong that may be: half a
	// round trip.
	Clock, Within time.Duration
}

// Nodes returns what each node says of itself, in the order of New, also of nodes that do not
// answer or are not the right ones. So it is of use where all other calls fail. It takes two
// requests to each node, to all at once, and is as slow as the slowest, which the timeouts of its
// client or ctx bound. It writes nothing. An error is about ctx, a closed Locker or wrong options.
func (l *Locker) Nodes(ctx context.Context) ([]NodeStatus, error) {
	err := l.usable(ctx)
	all := make([]NodeStatus, len(l.nodes))
	if err == nil {
		err = l.side(ctx, func(i int) {
			all[i] = NodeStatus{Node: nameOf(i, l.nodes[i].rdb), Err: lua.ErrCutShort} // unless status returns
			all[i] = l.status(context.WithoutCancel(ctx), l.nodes[i])
		})
	}
	if err != nil {
		return nil, &Error{Op: "nodes", Err: err}
	}
	return all, nil
}

// usable is an error if the Locker is not to be used, or ctx has ended.
func (l *Locker) usable(ctx context.Context) error {
	switch {
	case l.err != nil:
		return l.err
	case l.core.Settings.Err != nil:
		return l.core.Settings.Err
	case engine.IsClosed(l.closing):
		return ErrClosed
	case ctx == nil:
		return engine.Invalid("the context is nil")
	case engine.HasEnded(ctx):
		return engine.EndOf(ctx)
	}
	return nil
}

// side does something at each node, also at those that are away, side by side. What is not done
// when ctx ends goes on.
func (l *Locker) side(ctx context.Context, at func(i int)) error {
	return l.core.Await(ctx, func(context.Context) {
		done := make(chan struct{}, len(l.nodes))
		for i := range l.nodes {
			l.core.Go(func() {
				defer func() { done <- struct{}{} }() // also if a hook ends the goroutine
				at(i)
			})
		}
		for range l.nodes {
			<-done
		}
	})
}

// round does something at each node that listens, side by side, and returns when all are done, or
// when a majority has succeeded and the others had so long: hush, unless there is less time. Who
// falls silent in a round that asks twice has up to 50 ms more: else the next round would not know
// yet, and wait again.
func (l *Locker) round(most time.Duration, at func(i int) error) {
	type done struct {
		i   int
		err error
	}
	all, awaited := make(chan done, len(l.nodes)), make(map[int]bool)
	for i, node := range l.nodes {
		if !node.listens() {
			continue
		}
		awaited[i] = true
		l.core.Go(func() {
			d := done{i, lua.ErrCutShort}
			defer func() { all <- d }()
			d.err = at(i)
		})
	}
	patience := time.NewTimer(most)
	defer patience.Stop()
	late, longer, succeeded := false, false, 0
	for len(awaited) > 0 && (!late || succeeded < l.need()) {
		select {
		case d := <-all:
			if delete(awaited, d.i); d.err == nil {
				succeeded++
			}
		case <-patience.C:
			var more time.Duration
			for i := range awaited {
				if left := l.nodes[i].falls(); !longer && left <= min(silence, most)/5 {
					more = max(more, left)
				}
			}
			if late, longer = more == 0, true; !late {
				patience.Reset(more)
			}
		}
	}
}

// warn says which nodes refuse, where the others are enough.
func (l *Locker) warn(refused []error) {
	for i, err := range refused {
		if err != nil && !is(err, errNumber) { // that is told already
			l.nodes[i].logger.Warn("fairlock: a node of the quorum refuses what it is asked; the others go on", "error", redact.Error(err))
		}
	}
}

func (l *Locker) need() int { return len(l.nodes)/2 + 1 }

// status asks a node for its status. Only the second answer tells the time well: the first may have
// to connect.
func (l *Locker) status(ctx context.Context, n *node) (s NodeStatus) {
	name := nameOf(n.i, n.rdb)
	for range 2 {
		sent := time.Now()
		reply, err := n.server.Run(ctx, nodeScript, []string{l.nodeKey}, l.most.Milliseconds())
		within := time.Since(sent) / 2
		if err == nil {
			s, err = l.decode(n, reply, sent.Add(within))
		}
		if err != nil {
			return NodeStatus{Node: name, Err: err}
		}
		s.Node, s.Within = name, within
	}
	return s
}

// decode reads a reply that the node wrote at this time of our clock. It is no error of the reply's
// that the server is not the right one: the status has that.
func (l *Locker) decode(n *node, reply []any, at time.Time) (s NodeStatus, err error) {
	all := numbers(reply)
	if len(reply) != 5 || len(all) != 3 {
		return s, lua.WrongReply("node", reply)
	}
	s.Run, _ = reply[1].(string)
	seat, _ := reply[3].(string)
	s.Number, s.Set = seatOf(seat)
	s.Clock, s.Quarantine, s.LongestLease = lua.Micros(all[0]).Time().Sub(at), ms(all[1]), ms(all[2])
	if seat != "" {
		s.Err = l.keeps(n, seat, all[2])
	}
	return s, nil
}
