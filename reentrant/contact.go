package reentrant

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/lua"
)

// contact is the first look at the server, before the first lock: one at a time, until one succeeds.
type contact struct {
	made atomic.Bool
	turn chan struct{} // holds one while somebody looks
}

// Contact makes contact if that has not been done: two requests, once in a Locker's life. A wait that is positive bounds it.
func (c *Core) Contact(ctx context.Context, wait time.Duration) error {
	if c.contact.made.Load() {
		return nil
	}
	if wait > 0 {
		start := time.Now()
		bounded, cancel := context.WithTimeoutCause(ctx, wait, context.DeadlineExceeded)
		defer cancel()
		err := c.Contact(bounded, 0)
		if bounded.Err() != nil && ctx.Err() == nil {
			return &WaitError{Waited: time.Since(start), Err: err}
		}
		return err
	}
	select {
	case c.contact.turn <- struct{}{}:
		defer func() { <-c.contact.turn }()
	case <-ctx.Done():
		return EndOf(ctx)
	}
	if c.contact.made.Load() {
		return nil
	}
	answer := make(chan error, 1)
	if c.Keeper.Await(ctx, func() { answer <- c.look(ctx) }) != nil {
		return EndOf(ctx)
	}
	err := <-answer
	c.contact.made.Store(err == nil)
	if err != nil && ctx.Err() != nil {
		err = EndOf(ctx)
	}
	return err
}

// look finds out whether the server can keep locks at all.
func (c *Core) look(ctx context.Context) error {
	info, err := c.insist(ctx, "info")
	if err == nil {
		text, _ := info.(string)
		err = c.judge(text)
	} else if redis.HasErrorPrefix(err, "NOPERM") {
		err = nil // then it is the operator who knows
	}
	if err != nil {
		return err
	}
	// Nobody listens there yet. Better to fail now than to leave the next in line untold at a release.
	if _, err = c.insist(ctx, "publish", c.Server.Channel(), ""); err != nil {
		return fmt.Errorf("publishing on %s: %w", c.Server.Channel(), err)
	}
	return nil
}

// InsistFor is how long a request that fails at once, unanswered, is repeated for a call that does not wait: pooled
// connections may have died unnoticed, and such a failure comes soon.
const InsistFor = time.Second

// insist repeats a command that is safe to repeat.
func (c *Core) insist(ctx context.Context, args ...any) (reply any, err error) {
	var backoff Backoff
	for start := time.Now(); ; {
		reply, err = c.Server.Do(ctx, args...)
		if err == nil || !lua.Unanswered(err) || time.Since(start) > InsistFor || backoff.Wait(ctx) != nil {
			return reply, err
		}
	}
}

// judge reads the answer to INFO. What it does not say is not held against the server.
func (c *Core) judge(info string) error {
	field := make(map[string]string)
	for lines := bufio.NewScanner(strings.NewReader(info)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		field[name] = value
	}
	if version, ok := field["redis_version"]; ok {
		major, _, _ := strings.Cut(version, ".")
		if n, err := strconv.Atoi(major); err == nil && n < 7 {
			return fmt.Errorf("the server is Redis %s, and 7.0 is the oldest that will do: %w", version, errors.ErrUnsupported)
		}
	}
	if policy := field["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		c.Settings.Logger.Warn("fairlock: the server may evict locks when its memory is full; only noeviction keeps them", "maxmemory-policy", policy)
	}
	return nil
}
