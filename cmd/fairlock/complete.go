package main

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
)

// completeWithin bounds what the person at the keyboard waits.
const completeWithin = time.Second

// complete is what the last of the words, which is still being typed, may become. The words before it decide.
func complete(words []string) []candidate {
	if len(words) == 0 || slices.Contains(words[:len(words)-1], "--") {
		return nil
	}
	before, last := words[:len(words)-1], words[len(words)-1]
	v := &verbs{}
	parser := parser(v)
	call, err := kong.Trace(parser, before)
	if err != nil {
		return nil
	}
	node := call.Selected()
	if node == nil {
		node = parser.Model.Node
	}
	all := next(call, node, before, last)
	return slices.DeleteFunc(all, func(c candidate) bool {
		return !strings.HasPrefix(c.word, last) || output.Clean(c.word) != c.word // nobody can type those
	})
}

// next is everything that may come after before.
func next(call *kong.Context, node *kong.Node, before []string, last string) []candidate {
	if len(before) > 0 {
		if f := takesValue(node, before[len(before)-1]); f != nil {
			return choices(f.Value, "")
		}
	}
	if name, _, given := strings.Cut(last, "="); given {
		if f := takesValue(node, name); f != nil {
			return choices(f.Value, name+"=")
		}
	}
	switch {
	case call.Error != nil: // something before makes no sense
		return nil
	case strings.HasPrefix(last, "-"):
		return flags(node)
	case len(node.Children) > 0:
		return children(node)
	}
	return arguments(call, node)
}

// takesValue is the flag of that name, if a value has to follow it.
func takesValue(node *kong.Node, name string) *kong.Flag {
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			if !f.IsBool() && name == "--"+f.Name {
				return f
			}
		}
	}
	return nil
}

// choices are the values that v may have, if it may have only some.
func choices(v *kong.Value, before string) (all []candidate) {
	if v.Enum != "" {
		for _, value := range v.EnumSlice() {
			all = append(all, candidate{before + value, ""})
		}
	}
	return all
}

func flags(node *kong.Node) (all []candidate) {
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			all = append(all, candidate{"--" + f.Name, f.Help})
		}
	}
	return all
}

func children(node *kong.Node) (all []candidate) {
	for _, child := range node.Children {
		if !child.Hidden {
			all = append(all, candidate{child.Name, child.Help})
		}
	}
	return all
}

// predictor is a verb whose arguments the server knows.
type predictor interface {
	predict(ctx context.Context, what string) []candidate
}

// arguments are what the next argument may be.
func arguments(call *kong.Context, node *kong.Node) []candidate {
	given := 0
	for _, step := range call.Path {
		if step.Positional != nil {
			given++
		}
	}
	if given >= len(node.Positional) {
		return nil
	}
	argument := node.Positional[given]
	what := argument.Tag.Get("complete")
	verb, ok := reflect.TypeAssert[predictor](node.Target.Addr())
	if !ok || what == "" {
		return choices(argument, "")
	}
	// What was typed so far says which server to ask.
	if call.Reset() != nil || call.Resolve() != nil {
		return nil
	}
	if _, err := call.Apply(); err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
	defer cancel()
	return verb.predict(ctx, what)
}

func (c *connection) predict(ctx context.Context, _ string) []candidate {
	return (&site{connection: *c}).names(ctx, fairKind)
}

func (s *selection) predict(ctx context.Context, _ string) []candidate {
	return s.names(ctx, s.kinds()...)
}

func (v *evictVerb) predict(ctx context.Context, what string) []candidate {
	if what == "waiter" {
		return v.waiters(ctx)
	}
	return v.names(ctx, fairKind)
}

// names are those of the locks that there are, of these kinds.
func (s *site) names(ctx context.Context, kinds ...string) (all []candidate) {
	opened, err := s.open(kinds...)
	if err != nil {
		return nil
	}
	defer opened.close()
	opened.log.hush()
	for _, l := range opened.kinds {
		for state, err := range l.List(ctx) {
			if err != nil {
				return all
			}
			r := newLockRecord(l.kind, state)
			all = append(all, candidate{state.Name, r.Kind + ", held by " + r.Holder.who() + ", " + look.Count(r.Waiting) + " waiting"})
		}
	}
	return all
}

// waiters are the ids of those who wait for the lock.
func (v *evictVerb) waiters(ctx context.Context) (all []candidate) {
	opened, err := v.open(fairKind)
	if err != nil {
		return nil
	}
	defer opened.close()
	opened.log.hush()
	state, err := opened.kinds[0].Inspect(ctx, v.Name)
	if err != nil {
		return nil
	}
	for i, w := range newLockRecord(fairKind, state).Waiters {
		all = append(all, candidate{w.ID, w.who() + ", place " + look.Count(i+1)})
	}
	return all
}
