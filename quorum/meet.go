package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// Meet finds out whether a majority of nodes belongs to the quorum, or to none. Then it tells the
// latter: wrong nodes among ours must not cost the right ones a node that has just lost all that it
// kept.
func (s strategy) Meet(ctx context.Context, _ lua.Keys) error {
	blank, err := s.greet(ctx, func(ctx context.Context, n *node) (string, bool, error) {
		run, set, err := s.meet(ctx, n, known)
		return run, set == "", err
	})
	if err != nil {
		return err
	}
	s.joined.Store(true)
	for _, n := range blank { // one that cannot be told is away
		s.core.Go(func() { _, _, _ = s.meet(context.Background(), n, joins) })
	}
	return nil
}

// greet asks each node for its run id, until a majority has told different ones. It waits for the
// others no longer than any call does, unless a node is blank, which may be told of a quorum then,
// and no majority is known to be of this one.
// One node of another quorum is an error, and so are two that are one server. Others that refuse
// are as good as away, and so is another node of this quorum, unless they leave no majority.
func (l *Locker) greet(ctx context.Context, ask question) (blank []*node, err error) {
	if l.err != nil {
		return nil, l.err
	}
	all := l.askAll(ctx, ask)
	runs, answered, failed := make(map[string]int), 0, l.reasons()
	refused, refusals := make([]error, len(l.nodes)), 0
	patience := time.NewTimer(hush)
	defer patience.Stop()
	most := time.NewTimer(lua.MostKept)
	defer most.Stop()
	late, over := false, false
	unsure := func() bool { return answered < l.need() || len(blank) > 0 && answered-len(blank) < l.need() }
	for open := len(l.nodes); open > 0 && !over && (!late || unsure()); {
		var m met
		select {
		case <-patience.C:
			late = true
			continue
		case <-most.C:
			over = true
			continue
		case m = <-all:
			open--
		}
		if m.err == nil && m.blank {
			blank = append(blank, l.nodes[m.i])
		}
		switch other, twice := runs[m.run]; {
		case m.err != nil && !rules.Retryable(m.err):
			refused[m.i], failed[m.i] = m.err, m.err
			if is(m.err, errNumber) {
				l.nodes[m.i].isAnother(m.err)
			} else if _, other := m.err.(definite); other { //nolint:errorlint // it may hold a user's error
				return nil, fmt.Errorf("node %d: %w", m.i+1, m.err)
			}
			if refusals++; refusals > len(l.nodes)-l.need() {
				return nil, byNode(refused)
			}
		case m.err != nil:
			failed[m.i] = m.err
		case twice && m.run != "":
			return nil, oneServer(l.nodes[other], l.nodes[m.i], m.run)
		default:
			runs[m.run], failed[m.i] = m.i, nil
			answered++
		}
	}
	if answered < l.need() {
		return nil, errors.Join(fmt.Errorf("%d of %d nodes answered, and a majority is %d: %w", answered, len(l.nodes), l.need(), rules.ErrUnreachable), byNode(failed))
	}
	l.warn(refused)
	return blank, nil
}

// question asks a node which server it is, and whether it belongs to no quorum.
type question func(context.Context, *node) (run string, blank bool, err error)

// met is what a node said to a question.
type met struct {
	i     int
	run   string
	blank bool
	err   error
}

// askAll asks all nodes at once. The channel has room for what each says.
func (l *Locker) askAll(ctx context.Context, ask question) <-chan met {
	all := make(chan met, len(l.nodes))
	for i, n := range l.nodes {
		l.core.Go(func() {
			m := met{i: i, err: lua.ErrCutShort} // unless ask returns
			defer func() { all <- m }()
			m.run, m.blank, m.err = ask(context.WithoutCancel(ctx), n)
		})
	}
	return all
}

// What errors wrap that are about which servers the nodes are. None is the fault of a call:
// somebody has to mend a list of nodes, or a name.
var (
	errOther  = errors.New("the server is not that node of this quorum")
	errNumber = fmt.Errorf("%w: its number is", errOther)
	errTwice  = errors.New("two nodes are one server")
)

// oneServer is the error of two nodes that are the server with that run id.
func oneServer(a, b *node, run string) error {
	if b.i < a.i {
		a, b = b, a
	}
	return definite{fmt.Errorf("%w: %s and %s, with the run id %s", errTwice, nameOf(a.i, a.rdb), nameOf(b.i, b.rdb), run)}
}

// What becomes of a node that belongs to no quorum, when it is met.
const (
	known = iota - 1 // nothing
	joins            // it belongs to this one, and grants nothing for now
	first            // it belongs to this one, in which nobody holds anything yet
)

// meet finds out whether a node belongs to the quorum, and which server it is. A node that belongs
// to none keeps no set.
func (l *Locker) meet(ctx context.Context, n *node, as int) (run, set string, err error) {
	reply, err := n.run(ctx, meetScript, []string{l.nodeKey}, n.arg, l.most.Milliseconds(), as)
	if err != nil {
		return "", "", err
	}
	if len(reply) != 4 {
		return "", "", lua.WrongReply("meet", reply)
	}
	run, _ = reply[0].(string)
	wait, _ := reply[1].(int64)
	set, _ = reply[2].(string)
	most, _ := reply[3].(int64)
	if err := l.keeps(n, set, most); err != nil && (set != "" || as != known) {
		return "", "", err
	}
	n.met(run, ms(wait))
	return run, set, nil
}

// keeps is an error unless this is what the node keeps: which node of which set it is, and the
// longest lease.
func (l *Locker) keeps(n *node, seat string, most int64) error {
	its, set := seatOf(seat)
	switch {
	case set != l.set || ms(most) != l.most:
		return definite{fmt.Errorf("%w: it is of %s with leases of up to %v, and not of %s with %v", errOther, set, ms(most), l.set, l.most)}
	case its != n.number:
		return definite{fmt.Errorf("%w %d, and not %d, of %s", errNumber, its, n.number, set)}
	}
	return nil
}

// seatOf is which node that is, and of which set. 0: it is told neither, or by an older version.
func seatOf(seat string) (number int, set string) {
	if _, err := fmt.Sscanf(seat, "node %d of", &number); err != nil {
		return 0, seat
	}
	_, set, _ = strings.Cut(seat, " of ")
	return number, set
}

// definite is an error that asking again does not mend, but for a node of which a name may yet lead
// elsewhere.
type definite struct{ error }

func (d definite) Unwrap() error { return d.error }
func (definite) RedisError()     {}

// is reports whether err is definite and wraps one of ours. An error of the user's is not asked.
func is(err, ours error) bool {
	d, ok := err.(definite) //nolint:errorlint // it may hold a user's error
	return ok && errors.Is(d.error, ours)
}

// Init says that nobody holds anything in this quorum: a new one need not wait for the longest
// lease that it might have forgotten. Use it once, before the first lock.
func (l *Locker) Init(ctx context.Context) error {
	err := l.usable(ctx)
	if err == nil {
		err = l.differ(ctx)
	}
	if err == nil {
		failed := make([]error, len(l.nodes))
		err = l.side(ctx, func(i int) {
			err := lua.ErrCutShort // unless meet returns
			defer func() {
				if err != nil {
					failed[i] = fmt.Errorf("node %d: %w", i+1, err)
				}
			}()
			_, _, err = l.meet(context.WithoutCancel(ctx), l.nodes[i], first)
		})
		if err == nil {
			err = errors.Join(failed...)
		}
	}
	if err != nil {
		return &Error{Op: "init", Err: err}
	}
	return nil
}

// differ is an error if two nodes are one server. It writes nothing.
func (l *Locker) differ(ctx context.Context) error {
	runs, failed := make([]string, len(l.nodes)), make([]error, len(l.nodes))
	err := l.side(ctx, func(i int) {
		failed[i] = lua.ErrCutShort // unless peek returns
		s, err := l.peek(context.WithoutCancel(ctx), l.nodes[i])
		runs[i], failed[i] = s.Run, err
	})
	if err == nil {
		err = byNode(failed)
	}
	if err != nil {
		return err
	}
	first := make(map[string]*node)
	for i, run := range runs {
		if other := first[run]; other != nil && run != "" {
			return oneServer(other, l.nodes[i], run)
		}
		first[run] = l.nodes[i]
	}
	return nil
}
