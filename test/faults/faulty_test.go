package faults

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/test/world"
)

var background = context.Background()

// faulty is the world of these tests, with what only they do to the server.
type faulty struct{ *world.Faulty }

// plain has its users use plain locks.
func (f *faulty) plain() *faulty {
	f.Plain()
	return f
}

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

// onEachKind is onFaulty for fair locks, and then for plain ones.
func onEachKind(t *testing.T, test func(f *faulty)) {
	t.Helper()
	t.Run("fair", func(t *testing.T) { onFaulty(t, test) })
	t.Run("plain", func(t *testing.T) {
		onFaulty(t, func(f *faulty) {
			f.Plain()
			test(f)
		})
	})
}

// lateness measures by how much a timer of d is late on this busy machine.
func (f *faulty) lateness(d time.Duration) (late func() time.Duration) {
	began, passed := time.Now(), make(chan time.Duration, 1)
	time.AfterFunc(d, func() { passed <- time.Since(began) - d })
	return sync.OnceValue(func() time.Duration { return <-passed })
}
