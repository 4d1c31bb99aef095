package faults

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/lua"
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

// onEachKind is onFaulty for fair locks, and for plain ones.
func onEachKind(t *testing.T, test func(f *faulty)) {
	t.Helper()
	world.Together(t, map[string]func(*testing.T){
		"fair":  func(t *testing.T) { onFaulty(t, test) },
		"plain": func(t *testing.T) { onFaulty(t, func(f *faulty) { test(f.plain()) }) },
	})
}

// meet has users make contact with the server. That may take long on a busy machine, and shall not
// use up a time that the test gives them.
func (f *faulty) meet(users ...*world.User) {
	f.Helper()
	for _, u := range users {
		f.Unlocks(u.Locks("met"))
	}
}

// admin is the server for requests that a user's client sends by itself. Its connection is greeted
// now: go-redis repeats a ping, and nobody repeats a script.
func (f *faulty) admin(u *world.User) *lua.Server {
	f.Helper()
	f.Must(u.Client.Ping(background).Err())
	return lua.NewServer(u.Client, lua.Channels("fairlock"), "admin")
}

// stalls measures for how long this busy machine has stood still since stood was last called.
func (f *faulty) stalls() (stood func() time.Duration) {
	s := world.WatchStalls()
	f.Cleanup(s.Close)
	before := time.Duration(0)
	return func() time.Duration {
		all := s.Total()
		defer func() { before = all }()
		return all - before
	}
}

// lateness measures by how much a timer of d is late on this busy machine.
func (f *faulty) lateness(d time.Duration) (late func() time.Duration) {
	began, passed := time.Now(), make(chan time.Duration, 1)
	time.AfterFunc(d, func() { passed <- time.Since(began) - d })
	return sync.OnceValue(func() time.Duration { return <-passed })
}
