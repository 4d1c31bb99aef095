package engine

import (
	"context"
	"fmt"

	"github.com/fairlock/locks/lua"
)

// mostForces is how often ForceUnlock looks who has the lock, while that changes before it is forced.
const mostForces = 10

// errPassesOn is why a ForceUnlock has ended no ownership, though there was one each time.
var errPassesOn = fmt.Errorf("%w any more by any of the %d who were seen to have it", ErrNotHeld, mostForces)

// ForceUnlock ends the present ownership of a lock. Then handle, unless it is nil, has to handle a
// grant in the answer, and the rest of the line. handle runs even if ctx has ended by then.
func (c *Core) ForceUnlock(ctx context.Context, name string, handle func(lua.Keys, lua.Left)) (lua.Keys, error) {
	return c.force(ctx, name, func(ctx context.Context, keys lua.Keys) error {
		for range mostForces {
			state, err := c.Server.Inspect(ctx, keys, 0, 0)
			switch {
			case err != nil:
				return err
			case !state.Held:
				return ErrNotHeld
			}
			if err := c.forceToken(ctx, keys, state.HeldToken, handle); err != ErrNotHeld { //nolint:errorlint // its own: a user's error is not asked
				return err
			}
		}
		return errPassesOn
	})
}

// ForceToken is ForceUnlock of the ownership with that token only.
func (c *Core) ForceToken(ctx context.Context, name string, token int64, handle func(lua.Keys, lua.Left)) (lua.Keys, error) {
	if token < 0 {
		return lua.Keys{}, c.ReportForce(name, Invalid("a token is not negative"))
	}
	return c.force(ctx, name, func(ctx context.Context, keys lua.Keys) error { return c.forceToken(ctx, keys, token, handle) })
}

func (c *Core) force(ctx context.Context, name string, end func(context.Context, lua.Keys) error) (lua.Keys, error) {
	keys, err := c.Ready(ctx, name)
	if err != nil {
		return keys, c.ReportForce(name, err)
	}
	if e := c.Await(ctx, func(ctx context.Context) { err = end(ctx, keys) }); e != nil {
		return keys, c.ReportForce(name, e)
	}
	return keys, c.ReportForce(name, err)
}

// ReportForce logs that a lock was forced, or makes err the error of that.
func (c *Core) ReportForce(name string, err error) error {
	if err != nil {
		return &Error{Op: "force", Name: name, Err: err}
	}
	c.Settings.Logger.Warn("fairlock: a lock was forced", "lock", name)
	return nil
}

func (c *Core) forceToken(ctx context.Context, keys lua.Keys, token int64, handle func(lua.Keys, lua.Left)) error {
	forced, left, err := c.Server.Force(ctx, keys, token)
	if forced {
		c.ForcedHere(keys.Record(), func(h *Hold) bool { return h.Token == token })
	}
	switch {
	case err != nil:
		return err
	case !forced:
		return ErrNotHeld
	case handle != nil:
		handle(keys, left)
	}
	return nil
}
