package main

import (
	"fmt"

	"github.com/fairlock/locks/fairlock"
)

// nestedScene is the second: a lock that is taken within itself, and somebody else who wants it.
type nestedScene struct {
	*stage
	insider, visitor *process
	token            int64
	visited          bool
}

// nested plays it.
func (s *stage) nested() error {
	s.screen.scene("A lock within itself: three deep and back")
	n := &nestedScene{stage: s, insider: s.crew.workers[0], visitor: s.crew.workers[1]}
	n.insider.send(command{Do: nest, Lock: "nested", Who: "the insider"})
	out, visited := event{}, event{}
	var failed error
	err := s.each(func(e event) bool {
		if e.Lock != "nested" {
			return false // somebody is late to tell that it has left another lock
		}
		switch e.Kind {
		case entered:
			if e.Who == "a visitor" {
				visited = e
				n.visited = true
			} else {
				n.token = e.Token
			}
		case deeper, back:
			failed = n.step(e)
		case left:
			if e.Who == "the insider" {
				out = e
			}
		}
		return failed != nil || e.Kind == done && e.Who == "a visitor"
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	return n.end(out, visited)
}

// step is one level further down or up: the server is to know of it, and the visitor to wait.
func (n *nestedScene) step(e event) error {
	state, err := n.until("nested", func(state *fairlock.State) bool {
		return state.Holder != nil && state.Holder.Depth == e.Depth
	})
	if err != nil {
		return err
	}
	if e.Token != n.token || state.Holder.Token != n.token {
		n.witness.breaks("at depth %d the tokens are %d and %d, not %d", e.Depth, e.Token, state.Holder.Token, n.token)
	}
	what := "takes the lock"
	if e.Kind == back {
		what = "comes back"
	} else if e.Depth > 1 {
		what = "takes it again"
	}
	line := fmt.Sprintf("%s %-15s depth %d   on the server %d   token %d", n.screen.worker(n.insider.number), what, e.Depth, state.Holder.Depth, e.Token)
	if e.Kind == back {
		line += "   " + n.screen.dim(n.waits(state))
	}
	n.screen.say("%s", line)
	if e.Kind == deeper && e.Depth == depths {
		if err := n.visit(); err != nil {
			return err
		}
	}
	n.insider.send(command{Do: finish, Who: e.Who})
	return nil
}

// visit has the visitor ask.
func (n *nestedScene) visit() error {
	n.visitor.send(command{Do: job, Lock: "nested", Who: "a visitor"})
	if _, err := n.until("nested", func(state *fairlock.State) bool { return isLast(state, "a visitor") }); err != nil {
		return err
	}
	n.screen.say("%s asks for it, and stands in line", n.screen.worker(n.visitor.number))
	return nil
}

// waits checks that the visitor still does.
func (n *nestedScene) waits(state *fairlock.State) string {
	if n.visited || !isLast(state, "a visitor") {
		n.witness.breaks("the visitor is no longer in line, although the lock was not released")
		return ""
	}
	return letter(n.visitor.number) + " waits"
}

// end checks what came after the outermost unlock. That the visitor was in only then is what the witness sees to.
func (n *nestedScene) end(out, visited event) error {
	if visited.Token <= n.token {
		n.witness.breaks("the visitor's token %d is not larger than %d", visited.Token, n.token)
	}
	if visited.At < out.At {
		n.witness.breaks("the visitor was in before the outermost unlock")
	}
	n.screen.say("%s unlocks for good; %s has it %s later, with token %d",
		n.screen.worker(n.insider.number), n.screen.worker(n.visitor.number), milliseconds(handed(out, visited)), visited.Token)
	return nil
}
