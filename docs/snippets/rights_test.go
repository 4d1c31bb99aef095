package snippets_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/reentrant"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/written"
)

// complaints is all that a user with a right too few is told, by errors and by the log.
type complaints struct{ written.Text }

func (c *complaints) hear(err error) {
	if err != nil {
		_, _ = fmt.Fprintln(c, err)
	}
}

func (c *complaints) name(what string) bool {
	return strings.Contains(strings.ToLower(c.String()), strings.ToLower(what))
}

// quiet are the rights that a life as below does not miss. That the scripts need them is shown by
// TestTheRightsThatTheGuideTellsAreThoseOfTheScripts.
var quiet = []string{
	"info",                // then nobody looks at version and eviction policy
	"unsubscribe", "ping", // of a connection that has nothing left to hear, or hears nothing for long
	"pexpiretime",                                                            // of holds that share a lock
	"linsert", "lpos", "lset", "zscore", "zrangebyscore", "zremrangebyscore", // of waiters that return to their places, or do not
}

func TestARightThatIsMissingIsNamed(t *testing.T) {
	s := redistest.Start(t)
	admin := s.Client(t)
	rule := strings.Fields(blocks(guides(t)["operations.md"], "acl")[0])
	for i, without := range rule {
		what := strings.ReplaceAll(strings.Trim(without, "+~&*"), "|", " ")
		if !strings.ContainsAny(without[:1], "+~&") || slices.Contains(quiet, what) {
			continue
		}
		t.Run(what, func(t *testing.T) {
			must(t, admin.FlushAll(t.Context()).Err())
			must(t, admin.ScriptFlush(t.Context()).Err())
			must(t, admin.Do(t.Context(), "ACL", "DELUSER", "app").Err())
			var command []any
			for _, word := range slices.Delete(slices.Clone(rule), i, i+1) {
				command = append(command, word)
			}
			must(t, admin.Do(t.Context(), command...).Err())
			rdb := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "app", "password" })
			var said complaints
			log := fairlock.WithLogger(slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug})))
			calm := fairlock.WithLease(renewedSoon) // what is lost on a busy machine tells of no right
			var all sync.WaitGroup
			all.Go(func() { lives(t, &said, fairlock.New(rdb, log, calm), fairlock.New(rdb, log, calm)) })
			all.Go(func() { lives(t, &said, reentrant.New(rdb, log, calm), reentrant.New(rdb, log, calm)) })
			all.Wait()
			if !said.name(what) {
				t.Errorf("nobody says %q:\n%s", what, said.String())
			}
		})
	}
}

// lives has two Lockers do what they can, whatever fails.
func lives(t *testing.T, said *complaints, a, b fairlock.Interface) {
	t.Helper()
	ctx := t.Context()
	lease, err := a.Lock(ctx, "x", fairlock.WaitAtMost(3*time.Second))
	said.hear(err)
	if _, err = b.TryLock(ctx, "x"); !errors.Is(err, fairlock.ErrHeld) {
		said.hear(err)
	}
	var waiters sync.WaitGroup
	for range 2 {
		queued := make(chan struct{})
		waiters.Go(func() {
			var once sync.Once
			join := func() { once.Do(func() { close(queued) }) }
			defer join()
			got, err := b.Lock(ctx, "x", fairlock.WaitAtMost(2*time.Second), fairlock.OnQueued(func(int) { join() }))
			said.hear(err)
			if err == nil {
				said.hear(got.Unlock(ctx))
			}
		})
		<-queued
	}
	if lease != nil {
		said.hear(lease.Extend(ctx, 2*renewedSoon)) // by more than what is left
	}
	state, err := b.Inspect(ctx, "x")
	said.hear(err)
	if fair, ok := b.(*fairlock.Locker); ok && err == nil && len(state.Waiters) > 1 {
		said.hear(fair.Evict(ctx, "x", state.Waiters[1].ID))
	}
	said.hear(lease.Unlock(ctx))
	waiters.Wait()
	said.hear(a.ForceUnlock(ctx, "x"))
	said.hear(errors.Join(a.Close(), b.Close()))
}
