package simulate

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/nosy"
	"github.com/fairlock/locks/test/simulate/stage"
)

// paced is the hook of the client's: see stage.Pacer.
func (c *client) paced(cmd redis.Cmder, args []string, send func() error) error {
	time.Sleep(stage.Span(c.w.draw(c.id, stage.Contents(args), 7), 1, 50*time.Microsecond))
	if c.forgoes(args) {
		cmd.(interface{ SetVal(any) }).SetVal(int64(1)) //nolint:forcetypeassert // each has a value
		return nil
	}
	h := c.hooks(args)
	h.acts(&h.before)
	err := send()
	if lua.Unanswered(err) {
		c.w.referee.unanswered(args)
	}
	h.acts(&h.after)
	return nosy.Error(err, func() {
		if c.asked.Add(1)%7 == 0 { // an error is asked dozens of times, and a probe takes its time
			c.probe("a method of an error of its hook")
		}
	})
}

// hooked is what the user's hook does to one request, before it is sent and once it is answered.
type hooked struct {
	c             *client
	args          []string
	verb          string
	before, after stage.Deed
}

// hooks draws what the hook does to a request: nearly always nothing.
func (c *client) hooks(args []string) (h hooked) {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	verb := w.server.Verb(args)
	if c.link.hooked == 0 || verb == "" || verb != "leave" && w.plan.Break.Hook {
		return h
	}
	c.link.hooked--
	h = hooked{c: c, args: args, verb: verb}
	h.before, h.after = stage.Deeds(w.draw(c.id, stage.Contents(args), 24), w.plan.brings(Hooks), w.plan.brings(HookCrashes))
	return h
}

// forgoes reports whether a request is not to be sent, for it has been cut short before: a test
// breaks that on purpose.
func (c *client) forgoes(args []string) bool {
	if !c.w.plan.Break.Hook || len(args) < 12 {
		return false
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.w.server.Verb(args) != "leave" {
		return false
	}
	_, cut := c.cutShort.Load(args[11])
	return cut
}

// acts does what the hook does now.
func (h *hooked) acts(do *stage.Deed) {
	c, verb := h.c, h.verb
	if do.Takes > 0 {
		c.fault("slow hook", "%s, %v", verb, do.Takes)
		c.distracts(1)
		c.pass(do.Takes)
		c.runs(stage.Contents(h.args))
		c.distracts(-1)
	}
	do.End(func(kind string) {
		c.w.referee.unanswered(h.args)
		c.link.lost(h.args)
		if verb == "leave" { // it is repeated soon
			c.cutShort.Store(h.args[11], true) // its first ticket
		} else {
			c.distracts(0)
		}
		c.fault(kind, "%s", verb)
	})
}

// distracts notes that so many more requests are kept by a hook. Whatever comes of that is no
// fault of the network.
func (c *client) distracts(n int) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.link.hooking += n
	c.link.trouble()
}

// survives runs the user's code in a goroutine that may panic or end, as far as the user's own code
// makes it. Then it does what deferred functions do.
func (a *actor) survives(f func()) {
	if !stage.Survives(f) {
		a.drops()
	}
}

// drops ends what the actor began, and unlocks what it has.
func (a *actor) drops() {
	for _, k := range a.open {
		if !k.done {
			a.ends(k, "nothing: the user's code did not return")
		}
	}
	for _, b := range slices.Backward(a.has) {
		a.w.mu.Lock()
		over, left := b.over || b.by.crashed, !b.left.IsZero()
		a.w.mu.Unlock()
		if over {
			continue
		}
		if !left {
			a.w.referee.unlocks(b)
		}
		if b.inDo || left { // it is given back by Do, or by the Unlock that did not return
			a.w.referee.finished(b)
		} else {
			a.survives(func() { a.w.referee.unlocked(b, b.lease.Unlock(context.Background())) })
		}
	}
}
