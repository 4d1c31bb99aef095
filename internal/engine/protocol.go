package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/fairlock/locks/lua"
)

// Protocol is what the Core has to know of how locks are kept on the server. Fairlock's own locks
// share one. A [Strategy] that is also a Protocol keeps its locks in another one.
type Protocol interface {
	// Check reports what a call asks for that the locks cannot do.
	Check(Request) error
	// Keys are the keys of the lock with that name.
	Keys(name string) (lua.Keys, error)
	// Meet finds out, before the first lock, whether the server can keep this lock, keeps its locks
	// in this protocol, and lets the client publish what is published.
	Meet(context.Context, lua.Keys) error
	// Renew prolongs holds; see [lua.Server.Renew].
	Renew(context.Context, []lua.Renewal) []lua.Renewed
	// Reassert renews a hold that a record does not have; see [lua.Server.Reassert].
	Reassert(context.Context, lua.Renewal) lua.Renewed
}

// own is the protocol of Fairlock.
type own struct{ *Core }

// Check finds nothing: the locks can do all.
func (own) Check(Request) error { return nil }

// Keys are those under the prefix.
func (o own) Keys(name string) (lua.Keys, error) { return lua.NewKeys(o.Settings.Prefix, name) }

// Meet also publishes on the client's own channel.
func (o own) Meet(ctx context.Context, keys lua.Keys) error {
	if err := o.Examine(ctx, o.knows); err != nil {
		return err
	}
	return o.speaks(ctx, keys)
}

// knows reads, or writes, which protocol the locks of this prefix are kept in.
func (o own) knows(ctx context.Context) error {
	kept, err := insist(ctx, func() (string, error) { return o.Server.Meet(ctx) })
	switch {
	case err == nil:
		return understands(lua.ProtocolKey(o.Settings.Prefix), kept)
	case lua.Answered(err) || o.Server.Sharded():
		return nil // no right to this key, or its node is away: the call's own requests decide
	}
	return err
}

// understands refuses a server whose locks are kept in a protocol that this Locker does not know.
func understands(key, kept string) error {
	if kept == strconv.Itoa(lua.Protocol) {
		return nil
	}
	return fmt.Errorf("the locks of this prefix are kept in protocol %.100q, as %s says, and this Locker knows protocol %d only: "+
		"use a version of Fairlock that knows it or another prefix, or stop all Lockers of this prefix and delete %s: %w",
		kept, key, lua.Protocol, key, errors.ErrUnsupported)
}

// speaks publishes on the client's own channel, to which it does not listen yet. It is better to
// fail now than to leave the next in line untold at a release.
func (o own) speaks(ctx context.Context, keys lua.Keys) error {
	publish, numsub, channel := "publish", "NUMSUB", o.Server.Channel(keys)
	if o.Server.Sharded() {
		publish, numsub = "spublish", "SHARDNUMSUB"
	}
	if err := o.Ask(ctx, publish, channel, ""); err != nil {
		return fmt.Errorf("publishing on %s: %w", channel, err)
	}
	// The scripts can do without the answer: they then hand over to whichever waiter asks. That is
	// slow, and the operator should learn why.
	err := o.Ask(ctx, "eval", "return redis.call('PUBSUB', ARGV[1], ARGV[2])", 1, keys.Record(), numsub, channel)
	if lua.Answered(err) {
		o.Settings.Logger.Warn("fairlock: scripts cannot ask who listens (PUBSUB NUMSUB), so hand-overs take seconds", "error", err)
		return nil
	}
	return err
}

// Renew asks the server.
func (o own) Renew(ctx context.Context, all []lua.Renewal) []lua.Renewed {
	return o.Server.Renew(ctx, all)
}

// Reassert asks the server.
func (o own) Reassert(ctx context.Context, r lua.Renewal) lua.Renewed {
	return o.Server.Reassert(ctx, r)
}
