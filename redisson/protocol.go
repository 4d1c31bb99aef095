package redisson

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/lua"
)

const maxName = 512 // bytes, also when mapped

// protocol is Redisson's, as the Core has to know it.
type protocol struct {
	settings
	core *engine.Core
}

// Check reports what the protocol has no room for.
func (p *protocol) Check(r engine.Request) error {
	switch {
	case p.err != nil:
		return p.err
	case r.Owner != "":
		return unsupported("WithOwner", "it counts what an owner holds, and a repeated request could count twice")
	case r.Note != "":
		return unsupported("Note", "an owner is a UUID and a number, and nothing else")
	case r.Replicas.Asked():
		return unsupported("WithReplicas and WithFsync", "no client of Redisson's would wait for the same replicas")
	}
	return nil
}

func unsupported(what, why string) error {
	return engine.Unsupported("%s: not in the protocol of Redisson's locks: %s", what, why)
}

// Keys are the lock's own key, the line, the deadlines and, in the place of a token, what the lock's
// channels begin with.
func (p *protocol) Keys(name string) (lua.Keys, error) {
	if p.err != nil {
		return lua.Keys{}, p.err
	}
	if name != "" && p.names != nil {
		name = p.names.Map(name)
	}
	switch {
	case name == "":
		return lua.Keys{}, errors.New("the name is empty")
	case len(name) > maxName:
		return lua.Keys{}, fmt.Errorf("the name is %d bytes long, more than %d", len(name), maxName)
	case p.core.Server.Sharded() && !inOneSlot(name):
		return lua.Keys{}, fmt.Errorf("the braces in %.100q leave its keys in several slots of the cluster", name)
	}
	return lua.ForeignKeys(name, prefixed(queues, name), prefixed(deadlines, name), prefixed(channels, name)), nil
}

// What Redisson puts before a name.
const (
	queues    = "redisson_lock_queue"
	deadlines = "redisson_lock_timeout"
	channels  = "redisson_lock__channel"
	marks     = "fairlock_left" // ours
)

// prefixed is RedissonObject.prefixName.
func prefixed(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// inOneSlot reports whether a cluster keeps all keys of the lock in one slot.
func inOneSlot(name string) bool {
	_, rest, braced := strings.Cut(name, "{")
	if !braced {
		return !strings.Contains(name, "}")
	}
	return strings.IndexByte(rest, '}') > 0
}

// channel is what the lock's channels begin with; the plain lock's is this one.
func channel(keys lua.Keys) string { return keys.Token() }

// mark is the key that refuses late requests of an owner.
func mark(keys lua.Keys, owner string) string { return prefixed(marks, keys.Record()) + ":" + owner }

// Meet publishes on the channel of an owner that there is not. Redisson keeps no version on the
// server.
func (p *protocol) Meet(ctx context.Context, keys lua.Keys) error {
	if err := p.core.Examine(ctx, func(context.Context) error { return nil }); err != nil {
		return err
	}
	to := channel(keys) + ":" + p.id + ":0"
	if err := p.core.Ask(ctx, p.publish(), to, "0"); err != nil {
		return fmt.Errorf("publishing on %s: %w", to, err)
	}
	return nil
}

// publish is the command by which releases are told: on a cluster Redisson shards its channels, too.
func (p *protocol) publish() string {
	if p.core.Server.Sharded() {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

// Reassert asks once more: what is not there is lost.
func (p *protocol) Reassert(ctx context.Context, r lua.Renewal) lua.Renewed {
	return p.renew(ctx, []lua.Renewal{r})[0]
}

// Renew prolongs all holds in one request. On a cluster each has its own, and so has each if the
// server refuses them together.
func (p *protocol) Renew(ctx context.Context, all []lua.Renewal) []lua.Renewed {
	if !p.core.Server.Sharded() || len(all) == 1 {
		answers := p.renew(ctx, all)
		if err := answers[0].Err; len(all) == 1 || !lua.Answered(err) || lua.Passing(err) {
			return answers
		}
	}
	answers := make([]lua.Renewed, len(all))
	engine.ForEach(len(all), func(i int) { answers[i] = p.renew(ctx, all[i:i+1])[0] })
	return answers
}

// renew sends one request for all holds.
func (p *protocol) renew(ctx context.Context, all []lua.Renewal) []lua.Renewed {
	keys := make([]string, len(all))
	args := make([]any, 0, 4*len(all))
	for i, r := range all {
		keys[i] = r.Keys.Record()
		args = append(args, r.Ticket.ID(), r.Lease.Milliseconds(), int64(r.Until)/1000, r.Depth)
	}
	answers := make([]lua.Renewed, len(all))
	reply, err := p.core.Server.Run(ctx, renewScript, keys, args...)
	if err == nil && len(reply) != len(all) {
		err = lua.WrongReply("renew", reply)
	}
	for i := range answers {
		if err == nil {
			answers[i].Remaining, err = millis("renew", reply[i])
		}
		answers[i].Err = err
	}
	return answers
}
