package torture

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// This is the model of a lock for porcupine. A lock is a set of leases, all with one owner and one
// token. It passes to another owner when no lease is left. A lease ends by a release, or at the
// instant at which its trust ended by itself; that end is an operation too. A call of a killed
// process has an unknown outcome and stays open. It may be anywhere, since the dead trust nothing.
// A loss of data parts the earlier leases from the lock. For one lease they exclude nobody, and
// then they must be alone again.

// action is what an operation does to the model.
type action string

const (
	acquire action = "acquire"
	release action = "release" // by Unlock
	expire  action = "expire"  // by itself, or with its process
	unknown action = "unknown" // an acquire whose return nobody saw
	lose    action = "lose"    // of all data
	recall  action = "recall"  // one lease after a loss
)

// step is an operation's input.
type step struct {
	action action
	lease  int // its number; for acquire, release and expire
	owner  string
	token  int64
}

// lease is a lease in the model.
type lease struct {
	number int
	owner  string
	token  int64
}

// model is the state of a lock.
type model struct {
	token  int64  // the largest token given
	owner  string // its owner
	held   []lease
	parted []lease
}

func (m model) equal(other model) bool {
	return m.token == other.token && m.owner == other.owner && slices.Equal(m.held, other.held) && slices.Equal(m.parted, other.parted)
}

// next returns the state after a step, if the step is possible.
func (m model) next(s step) (bool, model) {
	switch s.action {
	case acquire:
		return m.acquire(lease{s.lease, s.owner, s.token})
	case release, expire:
		return m.end(s.lease)
	case lose:
		m.parted, m.held = slices.Concat(m.parted, m.held), nil
	case recall:
		if len(m.parted) == 0 {
			break
		}
		held := slices.Concat(m.held, m.parted)
		if slices.ContainsFunc(held, func(l lease) bool { return l.owner != held[0].owner }) {
			return false, m
		}
		m.held, m.parted = held, nil
	case unknown:
	}
	return true, m
}

func (m model) acquire(l lease) (bool, model) {
	same := func(other lease) bool { return other.owner == l.owner && other.token == l.token }
	switch {
	case slices.ContainsFunc(m.held, same):
		m.held = with(m.held, l)
	case len(m.held) > 0:
		return false, m
	case slices.ContainsFunc(m.parted, same):
		m.parted = with(m.parted, l)
	case l.token > m.token, l.token == m.token && l.owner == m.owner:
		m.held, m.token, m.owner = []lease{l}, l.token, l.owner
	default:
		return false, m
	}
	return true, m
}

func with(all []lease, l lease) []lease {
	all = append(slices.Clone(all), l)
	slices.SortFunc(all, func(a, b lease) int { return cmp.Compare(a.number, b.number) })
	return all
}

func (m model) end(number int) (bool, model) {
	its := func(l lease) bool { return l.number == number }
	held := slices.DeleteFunc(slices.Clone(m.held), its)
	parted := slices.DeleteFunc(slices.Clone(m.parted), its)
	ok := len(held)+len(parted) < len(m.held)+len(m.parted)
	m.held, m.parted = held, parted
	return ok, m
}

// span is a lease from its acquire to its end: a stretch of time, and the operations that belong
// together. The lock is free between spans that do not touch, so a history can be cut there.
type span struct {
	from, to   int64
	operations []porcupine.Operation
}

func operation(s step, from, to int64) porcupine.Operation {
	return porcupine.Operation{Input: s, Call: from, Return: max(from, to)}
}

// spans returns the spans of one lock.
func spans(lock string, calls []*call, losses []loss) []span {
	var all []span
	for i, c := range calls {
		switch {
		case c.token != 0:
			all = append(all, c.span(i))
		case c.ended == 0 && c.broke == 0:
			all = append(all, span{c.began, c.began, []porcupine.Operation{operation(step{action: unknown}, c.began, math.MaxInt64)}})
		}
	}
	for _, l := range losses {
		again := l.To + leaseOf(lock).Nanoseconds()
		all = append(all, span{l.From, again, []porcupine.Operation{
			operation(step{action: lose}, l.From, l.To), operation(step{action: recall}, again, again),
		}})
	}
	slices.SortStableFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return all
}

func (c *call) span(number int) span {
	from := c.began
	if at := c.trusts(); at < c.ended {
		from = at
	}
	end := c.trusted()
	over := operation(step{action: expire, lease: number}, end, end)
	switch {
	case c.given != 0 && c.sure && c.outcome == "" && c.released != 0:
		over = operation(step{action: release, lease: number}, c.given, c.released)
	case c.given != 0 && c.sure: // Unlock was not answered, but the lease ends by itself
		over = operation(step{action: release, lease: number}, c.given, c.given+leaseOf(c.lock).Nanoseconds())
	}
	over.Call, over.Return = max(from, over.Call), max(from, over.Return)
	return span{from, over.Return, []porcupine.Operation{
		operation(step{acquire, number, c.owner, c.token}, from, min(c.ended, over.Call)), over,
	}}
}

// pieceLength is how many spans a piece of a history has before the next possible cut.
const pieceLength = 200

// linearizable has porcupine check the history of each lock. It returns the number of pieces, and
// what is wrong.
func linearizable(calls []*call, losses []loss, patience time.Duration) (pieces int, wrong []string) {
	deadline := time.Now().Add(patience)
	of := make(map[string][]*call)
	for _, c := range calls {
		of[c.lock] = append(of[c.lock], c)
	}
	for lock, calls := range of {
		var initial model
		for all := spans(lock, calls, losses); len(all) > 0; pieces++ {
			n, end := 0, int64(0)
			for n < len(all) && (n < pieceLength || all[n].from <= end) {
				end = max(end, all[n].to)
				n++
			}
			var operations []porcupine.Operation
			for _, s := range all[:n] {
				operations = append(operations, s.operations...)
			}
			if complaint := check(initial, operations, time.Until(deadline)); complaint != "" {
				wrong = append(wrong, fmt.Sprintf("lock %s from %s to %s: %s", lock, clock(all[0].from), clock(end), complaint))
			}
			initial = initial.after(operations)
			all = all[n:]
		}
	}
	return pieces, wrong
}

// after returns the state of a free lock after these operations.
func (m model) after(operations []porcupine.Operation) model {
	for _, o := range operations {
		if s := o.Input.(step); s.token > m.token {
			m.token, m.owner = s.token, s.owner
		}
	}
	return m
}

func check(initial model, operations []porcupine.Operation, patience time.Duration) string {
	result, info := porcupine.CheckOperationsVerbose(porcupine.Model{
		Init: func() any { return initial },
		Step: func(state, input, _ any) (bool, any) { return state.(model).next(input.(step)) },
		Equal: func(a, b any) bool {
			return a.(model).equal(b.(model))
		},
	}, operations, max(patience, time.Millisecond))
	switch result {
	case porcupine.Ok:
		return ""
	case porcupine.Unknown:
		return fmt.Sprintf("not decided in time, for %d operations", len(operations))
	default:
		return "not linearizable: " + stuck(operations, info)
	}
}

// stuck returns the first operation without a place in the longest order that porcupine found.
func stuck(operations []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, order := range info.PartialLinearizationsOperations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	placed := make(map[step]bool)
	for _, o := range longest {
		placed[o.Input.(step)] = true
	}
	var first *porcupine.Operation
	for i, o := range operations {
		if !placed[o.Input.(step)] && (first == nil || o.Return < first.Return) {
			first = &operations[i]
		}
	}
	if first == nil {
		return "all of it has a place"
	}
	return fmt.Sprintf("%+v [%s, %s] after %d of %d", first.Input, clock(first.Call), clock(first.Return), len(longest), len(operations))
}
