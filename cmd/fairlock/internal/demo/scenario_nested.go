package demo

import (
	"cmp"

	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/fairlock"
)

// The two callers of the second scenario.
const (
	insider = "the insider"
	visitor = "a visitor"
)

// nestedScenario is the second scenario: a lock that is taken within itself, and a visitor that
// wants it, too.
type nestedScenario struct {
	*session
	host, guest *workerProcess // the insider's worker and the visitor's
	in          event          // the insider's first event
	out         event          // and its last
	visit       event          // when the visitor was let in
	failed      error
}

// nested plays the second scenario.
func (s *session) nested() error {
	s.screen.heading("A lock within itself: three deep and back")
	n := &nestedScenario{session: s, host: s.pool.workers[0], guest: s.pool.workers[1]}
	n.host.send(request{Do: doNest, Lock: "nested", Who: insider})
	err := s.each(func(e event) bool {
		if e.Lock != "nested" {
			return false // a worker is late to report that it has left another lock
		}
		n.take(e)
		return n.failed != nil || e.Kind == onDone && e.Who == visitor
	})
	if err := cmp.Or(n.failed, err); err != nil {
		return err
	}
	n.end()
	return nil
}

func (n *nestedScenario) take(e event) {
	switch e.Kind {
	case onEntered:
		if e.Who == visitor {
			n.visit = e
		} else {
			n.in = e
		}
	case onLeft:
		if e.Who == insider {
			n.out = e
		}
	case onDeeper, onBack:
		n.failed = n.step(e)
	}
}

// step handles one level further down or up: the server must know of it, and the visitor must wait.
func (n *nestedScenario) step(e event) error {
	state, err := n.until("nested", func(state *fairlock.State) bool {
		return state.Holder != nil && state.Holder.Depth == e.Depth
	})
	if err != nil {
		return err
	}
	if e.Token != n.in.Token || state.Holder.Token != n.in.Token {
		n.witness.breaks("at depth %d the tokens are %d and %d, not %d", e.Depth, e.Token, state.Holder.Token, n.in.Token)
	}
	n.show(e, state)
	if e.Depth == depths {
		if err := n.ask(); err != nil {
			return err
		}
	}
	n.host.send(request{Do: doFinish, Who: e.Who})
	return nil
}

func (n *nestedScenario) show(e event, state *fairlock.State) {
	what, waits := "takes the lock", ""
	switch {
	case e.Kind == onBack:
		what, waits = "comes back", n.waits(state)
	case e.Depth > 1:
		what = "takes it again"
	}
	n.screen.say("%s %-15s depth %d   on the server %d   token %d   %s",
		n.screen.worker(n.host.number), what, e.Depth, state.Holder.Depth, e.Token, n.screen.Dim(waits))
}

// ask makes the visitor ask for the lock.
func (n *nestedScenario) ask() error {
	n.guest.send(request{Do: doJob, Lock: "nested", Who: visitor})
	if _, err := n.until("nested", func(state *fairlock.State) bool { return isLast(state, visitor) }); err != nil {
		return err
	}
	n.screen.say("%s asks for it, and stands in line", n.screen.worker(n.guest.number))
	return nil
}

// waits checks that the visitor still waits.
func (n *nestedScenario) waits(state *fairlock.State) string {
	if !isLast(state, visitor) {
		n.witness.breaks("the visitor is no longer in line, although the lock was not released")
		return ""
	}
	return letter(n.guest.number) + " waits"
}

// end checks what came after the outermost unlock. The witness checks that the visitor was not in
// before.
func (n *nestedScenario) end() {
	if n.visit.Token <= n.in.Token {
		n.witness.breaks("the visitor's token %d is not larger than %d", n.visit.Token, n.in.Token)
	}
	n.screen.say("%s unlocks for good; %s has it %s later, with token %d",
		n.screen.worker(n.host.number), n.screen.worker(n.guest.number), output.Milliseconds(handed(n.out, n.visit)), n.visit.Token)
}
