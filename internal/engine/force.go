package engine

import (
	"context"
	"fmt"

	"github.com/fairlock/locks/lua"
)

// Present stands for the token of whoever has the lock.
const Present = -1

// mostForces is how often Force looks who has the lock, while it passes on before it is forced.
const mostForces = 10

// errPassesOn is why a Force of the Present ownership has ended none.
var errPassesOn = fmt.Errorf("%w any more by any of the %d who were seen to have it", ErrNotHeld, mostForces)

// Force ends the ownership of a lock with that token, or the Present one. Then handle, unless it is
// nil, has to handle a grant in the answer, and the rest of the line. handle runs even if ctx has
// ended by then.
func (c *Core) Force(ctx context.Context, name string, token int64, handle func(lua.Keys, lua.Left)) (lua.Keys, error) {
	keys, err := c.Ready(ctx, name)
	if err != nil {
		return keys, err
	}
	if e := c.Await(ctx, func(ctx context.Context) { err = c.force(ctx, keys, token, handle) }); e != nil {
		return keys, e
	}
	return keys, err
}

func (c *Core) force(ctx context.Context, keys lua.Keys, token int64, handle func(lua.Keys, lua.Left)) error {
	if token != Present {
		return c.forceToken(ctx, keys, token, handle)
	}
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
