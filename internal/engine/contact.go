package engine

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

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// contact is the first look at the server, before the first lock. One call looks at a time, until
// one succeeds.
type contact struct {
	made    atomic.Bool
	looking chan struct{} // holds one while a call looks

	// Guarded by looking.
	err   error     // of the last look, if nobody answered it; nil: somebody did, or there was none
	began time.Time // when that look began
}

// Contact makes contact with the server, for a call for the lock of these keys, unless that has
// been done. It takes four requests, once in a Locker's life. A positive wait bounds it. A look that
// nobody answers is the outcome for all calls that had come before it: none waits for more than two.
func (c *Core) Contact(ctx context.Context, keys lua.Keys, wait time.Duration) error {
	if c.contact.made.Load() {
		return nil
	}
	if wait > 0 {
		start := time.Now()
		bounded, cancel := lua.Bounded(ctx, start.Add(wait), context.DeadlineExceeded)
		defer cancel()
		err := c.Contact(bounded, keys, 0)
		if err != nil && bounded.Err() != nil && !HasEnded(ctx) {
			return &WaitError{Waited: time.Since(start), Err: err}
		}
		return err
	}
	err := c.look(lua.Asked(ctx), keys)
	if err != nil && !errors.Is(err, ErrClosed) && HasEnded(ctx) {
		return EndOf(ctx)
	}
	return err
}

// look is Contact, for a context that is not the user's: that one could take a lock as it is asked,
// and wait for the look of its own call.
func (c *Core) look(ctx context.Context, keys lua.Keys) error {
	came := time.Now()
	select {
	case c.contact.looking <- struct{}{}:
		defer func() { <-c.contact.looking }()
	case <-c.stop:
		return ErrClosed
	case <-ctx.Done():
		return errEnded
	}
	switch {
	case c.contact.made.Load():
		return nil
	case c.isClosed():
		return ErrClosed
	case c.contact.err != nil && c.contact.began.After(came):
		return c.contact.err
	}
	began := time.Now()
	var err error
	if e := c.await(ctx, func(ctx context.Context) { err = c.protocol.Meet(ctx, keys) }); e != nil {
		return e
	}
	c.contact.made.Store(err == nil)
	c.contact.err = nil
	// An answer may be about this call's lock alone.
	if err != nil && ctx.Err() == nil && !lua.Answered(err) {
		c.contact.err, c.contact.began = err, began
	}
	return err
}

// contactFor is Contact for a call for a lock, which says for how long it has waited.
func (c *Core) contactFor(ctx context.Context, keys lua.Keys, wait time.Duration) error {
	began := time.Now()
	err := c.Contact(ctx, keys, wait)
	if err != nil && HasEnded(ctx) && !errors.As(err, new(*WaitError)) {
		return waited(ctx, began)
	}
	return err
}

// Ask sends a command to the node of a lock, before the first lock, and repeats it while it goes
// unanswered. The command must be safe to repeat.
func (c *Core) Ask(ctx context.Context, args ...any) error {
	ask := func(ctx context.Context) error {
		_, err := insist(ctx, func() (any, error) { return c.Server.Do(ctx, args...) })
		return err
	}
	if !c.Server.Sharded() {
		return ask(ctx)
	}
	// If the lock's node is away, the call's own request will say so.
	err := c.briefly(ctx, ask)
	if !lua.Answered(err) || lua.Passing(err) {
		return nil
	}
	return err
}

// briefly returns what f returns, or nil if that takes longer than a try insists: calls for the
// locks of other nodes wait for the look that f is part of.
func (c *Core) briefly(ctx context.Context, f func(context.Context) error) error {
	brief, cancel := lua.Bounded(ctx, time.Now().Add(rules.InsistFor), context.DeadlineExceeded)
	defer cancel()
	var err error
	if e := c.Await(brief, func(ctx context.Context) { err = f(ctx) }); errors.Is(e, lua.ErrCutShort) {
		return e
	} else if e != nil {
		return nil
	}
	return err
}

// Examine finds out whether the server, or each master of a cluster, can keep locks at all, and then
// whether the protocol is known there. If a master of a cluster hangs, Examine waits only a short
// time, and holds nothing against any of them.
func (c *Core) Examine(ctx context.Context, known func(context.Context) error) error {
	if !c.Server.Sharded() {
		return c.examine(ctx, known)
	}
	return c.briefly(ctx, func(ctx context.Context) error { return c.examine(ctx, known) })
}

// examine judges what the server, or each master of a cluster, says of itself, and the protocol
// that is kept there.
func (c *Core) examine(ctx context.Context, known func(context.Context) error) error {
	infos, err := insist(ctx, func() ([]any, error) { return c.Server.Masters(ctx, "info") })
	for _, info := range infos {
		if text, _ := info.(string); err == nil {
			err = c.judge(text)
		}
	}
	if redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "unknown command") {
		err = nil // the server does not let us ask: the operator has to know
	}
	if err != nil {
		return err
	}
	return known(ctx)
}

// insist sends a command, and repeats it while it goes unanswered. The command must be safe to
// repeat.
func insist[R any](ctx context.Context, send func() (R, error)) (reply R, err error) {
	var backoff Backoff
	for start := time.Now(); ; {
		reply, err = send()
		if err == nil || !lua.Unanswered(err) || time.Since(start) > rules.InsistFor || backoff.Wait(ctx) != nil {
			return reply, err
		}
	}
}

// judge reads the answer to INFO. What the answer does not say is not held against the server.
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
	if field["arch_bits"] == "32" { // there, the scripts' times do not fit into a C long
		return fmt.Errorf("the server is built for 32 bits, and the scripts need 64: %w", errors.ErrUnsupported)
	}
	// The replica may be promoted, or the client may find the master: the next call looks again.
	if field["role"] == "slave" {
		return fmt.Errorf("the server is a replica of %s:%s, and only its master can keep locks: %w",
			field["master_host"], field["master_port"], errors.ErrUnsupported)
	}
	if field["cluster_enabled"] == "1" && !c.Server.Sharded() {
		c.Settings.Logger.Warn("fairlock: the server is a node of a cluster, and the client does not look like one of a cluster, so hand-overs take seconds")
	}
	if policy := field["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		c.Settings.Logger.Warn("fairlock: the server may evict locks when its memory is full; only noeviction keeps them", "maxmemory-policy", policy)
	}
	return nil
}
