package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// What looks at locks writes nothing: it tells no node of the quorum, and starts no quarantine. It
// shows what it can, also of a quorum in which a call for a lock is an error.

// Inspect shows a lock as a majority of nodes sees it, and in [State.Nodes] as each of them does.
// It takes one request to each node, all at once, and before the first one another; it writes
// nothing. A lock whose votes are split is shown as free, with all who ask for it in line.
// While nodes are away, the holder is whoever a node knows to have had a majority. The Waiters are
// those whom a majority has among its first 500 in line: a single node may still have one that has
// gone. Two that have just come may be shown in another order than theirs, until all nodes know
// their places. Nodes that are away count as having each of them. A node of another quorum says so
// in its view. It is an error if no majority of the nodes shows the lock.
func (l *Locker) Inspect(ctx context.Context, name string) (*State, error) {
	state, err := l.inspect(ctx, name)
	if err != nil {
		return nil, &Error{Op: "inspect", Name: name, Err: err}
	}
	return state, nil
}

func (l *Locker) inspect(ctx context.Context, name string) (*State, error) {
	keys, err := l.ready(ctx, name)
	if err != nil {
		return nil, err
	}
	views, refused, err := l.views(ctx, keys)
	if err != nil {
		return nil, err
	}
	return l.state(name, views, refused), nil
}

// ready checks what a look at a lock needs: what every operation does, and different nodes of which
// a majority answers. It finds out who is away, so that nobody waits for it.
func (l *Locker) ready(ctx context.Context, name string) (lua.Keys, error) {
	keys, err := l.core.Open(ctx, name)
	if err != nil || l.looked.Load() {
		return keys, err
	}
	if e := l.core.Await(ctx, func(ctx context.Context) {
		_, err = l.greet(ctx, func(ctx context.Context, n *node) (run string, blank bool, err error) {
			s, err := l.peek(ctx, n)
			if s.Err != nil {
				s.Run = "" // its views say what is wrong
			}
			return s.Run, false, err
		})
	}); e != nil {
		return keys, e
	}
	l.looked.Store(err == nil)
	return keys, err
}

// peek is kept, to which it is no error that the node is of no use: its views say why.
func (l *Locker) peek(ctx context.Context, n *node) (NodeStatus, error) {
	s, err := l.kept(ctx, n)
	if lua.Answered(err) && !lua.Passing(err) {
		err = nil
	}
	return s, err
}

// kept asks a node who it is, and what it keeps of itself. It writes nothing.
func (l *Locker) kept(ctx context.Context, n *node) (s NodeStatus, err error) {
	reply, err := n.run(ctx, nodeScript, []string{l.nodeKey}, l.most.Milliseconds())
	if err == nil {
		s, err = l.decode(n, reply, time.Now())
	}
	return s, err
}

// probe asks a node that is away whether it is back. Only a Locker that was asked for a lock, and
// has found its quorum, also tells the node of the quorum: a quarantine should begin soon.
func (l *Locker) probe(ctx context.Context, n *node) (err error) {
	if l.joined.Load() {
		_, _, err = l.meet(ctx, n, joins)
		return err
	}
	s, err := l.peek(ctx, n)
	if err == nil {
		err = s.Err
	}
	return err
}

// views asks all nodes, and says of each that shows nothing why. It is an error if no majority
// answers.
func (l *Locker) views(ctx context.Context, keys lua.Keys) (views []view, refused []error, err error) {
	type seen struct {
		view
		err error
	}
	answers := make(chan seen, len(l.nodes))
	if e := l.core.Await(ctx, func(ctx context.Context) {
		l.round(hush, func(i int) error {
			v := view{node: i}
			reply, err := l.nodes[i].run(context.WithoutCancel(ctx), inspectScript,
				[]string{keys.Record(), keys.Queue(), keys.Waiters(), keys.Token(), l.nodeKey}, 0, inspected-1, l.most.Milliseconds())
			if err == nil {
				err = v.decode(reply)
			}
			if err == nil && v.set != "" {
				err = l.keeps(l.nodes[i], v.set, v.most)
			}
			answers <- seen{v, err}
			return err
		})
	}); e != nil {
		return nil, nil, e
	}
	refused = l.reasons()
	for range len(answers) {
		a := <-answers
		if refused[a.node] = a.err; a.err == nil {
			views = append(views, a.view)
		}
	}
	slices.SortFunc(views, func(a, b view) int { return a.node - b.node })
	if len(views) >= l.need() {
		return views, refused, nil
	}
	err = l.tooFew(len(views), "show it", refused)
	if count(refused, lua.WrongType) > len(l.nodes)-l.need() {
		err = occupied{err}
	}
	return nil, nil, err
}

// occupied is the error of a look at a lock under whose name so many nodes have somebody else's key
// that no majority can have the lock.
type occupied struct{ error }

func (o occupied) Unwrap() error { return o.error }

// tooFew is why no majority of the nodes did something. If a majority is out of the question
// because nodes refuse, it does not say that nodes are out of reach.
func (l *Locker) tooFew(n int, did string, failed []error) error {
	refusals := count(failed, func(err error) bool { return err != nil && !rules.Retryable(err) && !is(err, errNumber) })
	text := fmt.Sprintf("%d of %d nodes %s, and a majority is %d", n, len(l.nodes), did, l.need())
	if refusals > len(l.nodes)-l.need() {
		return errors.Join(errors.New(text), byNode(failed))
	}
	return errors.Join(fmt.Errorf("%s: %w", text, rules.ErrUnreachable), byNode(failed))
}

// count is how many of the errors are of that kind.
func count(all []error, kind func(error) bool) (n int) {
	for _, err := range all {
		if kind(err) {
			n++
		}
	}
	return n
}

// List goes through all locks under the Locker's prefix that are held or waited for, in no order.
// It takes one request and a SCAN of each node, and an [Locker.Inspect] for each lock.
func (l *Locker) List(ctx context.Context) iter.Seq2[*State, error] {
	return func(yield func(*State, error) bool) {
		names, err := l.names(ctx)
		if err != nil {
			yield(nil, &Error{Op: "list", Name: l.prefix, Err: err})
			return
		}
		for _, name := range names {
			s, err := l.inspect(ctx, name)
			if errors.As(err, new(occupied)) {
				continue // nothing is known of the lock
			}
			if err != nil {
				yield(nil, &Error{Op: "list", Name: name, Err: err})
				return
			}
			if (s.Holder != nil || s.Waiting > 0) && !yield(s, nil) {
				return
			}
		}
	}
}

// names are those of the locks that any of a majority of nodes knows.
func (l *Locker) names(ctx context.Context) (names []string, err error) {
	if _, err := l.ready(ctx, "any"); err != nil {
		return nil, err
	}
	type scanned struct {
		node  int
		names []string
		err   error
	}
	all := make(chan scanned, len(l.nodes))
	scanning, stop := context.WithCancel(context.WithoutCancel(ctx)) // the nodes that are not waited for stop
	defer stop()
	if ended := l.core.Await(ctx, func(context.Context) {
		l.round(hush, func(i int) error {
			names, err := l.scan(scanning, l.nodes[i])
			all <- scanned{i, names, err}
			return err
		})
	}); ended != nil {
		return nil, ended
	}
	if engine.IsClosed(l.closing) {
		return nil, ErrClosed
	}
	known, answered, failed := make(map[string]bool), 0, l.reasons()
	for range len(all) {
		s := <-all
		if failed[s.node] = s.err; s.err == nil {
			answered++
		}
		for _, name := range s.names {
			if !known[name] {
				known[name], names = true, append(names, name)
			}
		}
	}
	if answered >= l.need() {
		return names, nil
	}
	return nil, l.tooFew(answered, "list their locks", failed)
}

// scan returns the names of the locks that a node knows, some of them twice.
func (l *Locker) scan(ctx context.Context, n *node) (names []string, err error) {
	s, err := l.kept(ctx, n) // a SCAN does not say for which node it is
	if err == nil {
		err = s.Err
	}
	if err != nil {
		return nil, err
	}
	for cursor := ""; cursor != "0"; {
		if engine.IsClosed(l.closing) { // a Close waits for this
			return nil, ErrClosed
		}
		var records []string
		if records, cursor, err = n.scan(ctx, cmp.Or(cursor, "0"), lua.ScanPattern(l.prefix)); err != nil {
			return nil, err
		}
		for _, record := range records {
			if name, ok := strings.CutPrefix(record, l.prefix+":queue:"); ok { // it may be waited for only
				record = l.prefix + ":lock:" + name
			}
			if name, _, err := lua.Named(l.prefix, record); err == nil {
				names = append(names, name)
			}
		}
	}
	return names, nil
}
