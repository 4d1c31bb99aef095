package security

import (
	"context"
	"testing"

	"github.com/fairlock/locks/test/world"
)

var background = context.Background()

// faulty is the world of these tests, with what only they do to the server.
type faulty struct{ *world.Faulty }

func newFaulty(t *testing.T, args ...string) *faulty {
	t.Helper()
	return &faulty{world.NewFaulty(t, args...)}
}

func newFaultyEmbedded(t *testing.T) *faulty {
	t.Helper()
	return &faulty{world.NewFaultyEmbedded(t)}
}

func onFaulty(t *testing.T, test func(f *faulty)) {
	t.Helper()
	world.OnFaulty(t, func(f *world.Faulty) { test(&faulty{f}) })
}
