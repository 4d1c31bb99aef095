package main

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
)

// completeWithin bounds how long the person at the keyboard waits.
const completeWithin = time.Second

// complete returns the possible completions of the last word, which is still being typed. The words
// before it decide.
func complete(words []string) []locks.Candidate {
	if len(words) == 0 || slices.Contains(words[:len(words)-1], "--") {
		return nil
	}
	before, last := words[:len(words)-1], words[len(words)-1]
	v := &cli{}
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
	return slices.DeleteFunc(all, func(c locks.Candidate) bool {
		return !strings.HasPrefix(c.Word, last) || output.Clean(c.Word) != c.Word // nobody can type such a word
	})
}

// next returns everything that may follow the words before.
func next(call *kong.Context, node *kong.Node, before []string, last string) []locks.Candidate {
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
	case call.Error != nil: // the words before make no sense
		return nil
	case strings.HasPrefix(last, "-"):
		return flags(node)
	case len(node.Children) > 0:
		return children(node)
	}
	return arguments(call, node)
}

// takesValue returns the flag of that name if a value has to follow the flag.
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

// choices returns the values that v may have, if v allows only some.
func choices(v *kong.Value, before string) (all []locks.Candidate) {
	if v.Enum != "" {
		for _, value := range v.EnumSlice() {
			all = append(all, locks.Candidate{Word: before + value, About: ""})
		}
	}
	return all
}

func flags(node *kong.Node) (all []locks.Candidate) {
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			all = append(all, locks.Candidate{Word: "--" + f.Name, About: f.Help})
		}
	}
	return all
}

func children(node *kong.Node) (all []locks.Candidate) {
	for _, child := range node.Children {
		if !child.Hidden {
			all = append(all, locks.Candidate{Word: child.Name, About: child.Help})
		}
	}
	return all
}

// predictor is a command that can ask the server for its possible arguments.
type predictor interface {
	Predict(ctx context.Context, what string) []locks.Candidate
}

// arguments returns the possible next arguments.
func arguments(call *kong.Context, node *kong.Node) []locks.Candidate {
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
	command, ok := reflect.TypeAssert[predictor](node.Target.Addr())
	if !ok || what == "" {
		return choices(argument, "")
	}
	// The words typed so far say which server to ask.
	if call.Reset() != nil || call.Resolve() != nil {
		return nil
	}
	if _, err := call.Apply(); err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
	defer cancel()
	return command.Predict(ctx, what)
}
