// Command nested is a service that calls itself three layers deep, in one goroutine and across a
// child goroutine. It shows which calls re-enter the held lock, and which are strangers to the hold
// and are excluded.
package main

import (
	"context"

	"github.com/fairlock/locks/examples/internal/stage"
	"github.com/fairlock/locks/fairlock"
)

const (
	account = "account:7"
	another = "account:8"
)

func main() { stage.Main(play, nil) }

func play(ctx context.Context, s *stage.Stage) error {
	here := fairlock.New(s.Redis, fairlock.WithPrefix(s.Prefix))
	defer here.Close()
	there := fairlock.New(s.Redis, fairlock.WithPrefix(s.Prefix)) // another instance of the service, as in another process
	defer there.Close()

	t := &trials{Stage: s, seen: make(map[string]int)}
	visitor := newVisitor(there)
	b := &bank{locker: here, show: t.layer}
	b.inside = func(ctx context.Context, innermost *fairlock.Lease) error {
		t.token = innermost.Token()
		t.who(ctx, here, there)
		t.children(ctx, here)
		s.Say("\nMeanwhile the other instance wants it too, and waits in line.")
		return visitor.lineUp(ctx, innermost)
	}
	s.Say("A service that locks an account in each of its layers:")
	if err := b.Transfer(ctx, account); err != nil {
		return err
	}
	visit, err := visitor.comesIn()
	if err != nil {
		return err
	}
	s.Check(!visit.tooEarly && visit.token > t.token, "the other instance had the lock before it was released, with token %d after %d", visit.token, t.token)
	s.Say("All layers return. The last of them unlocks, and the other instance has it, with token %d.", visit.token)
	if err := t.handedOn(ctx, here); err != nil {
		return err
	}
	return s.Audit("three layers deep under one token; %d more calls re-entered what was held, %d strangers were excluded, and one waited its turn",
		t.seen[reenters], t.seen[excluded])
}

// who tries several callers, three layers deep, for the lock that is held there.
func (t *trials) who(ctx context.Context, here, there *fairlock.Locker) {
	without := context.Background()
	t.Say("\nIn there, somebody asks for it once more:")
	t.try(
		trial{"the same goroutine, with the context", here, ctx, account, nil, inPlace, reenters},
		trial{"the same goroutine, without it", here, without, account, nil, inPlace, reenters},
		trial{"a child goroutine, with the context", here, ctx, account, nil, inChild, reenters},
		trial{"a child goroutine, without it", here, without, account, nil, inChild, excluded},
		trial{"another instance, with the context", there, ctx, account, nil, inPlace, excluded},
		trial{"the same goroutine, as the owner saga-7", here, ctx, account, fairlock.WithOwner("saga-7"), inPlace, excluded},
	)
}

// children runs two children side by side, with their parent's context. The context carries what
// the parent holds; the children share that hold, so it does not exclude one from the other. A lock
// that one child takes by itself excludes the other child.
func (t *trials) children(ctx context.Context, here *fairlock.Locker) {
	t.Say("\nTwo children side by side, both with the context:")
	t.try(
		trial{"one, for what their parent holds", here, ctx, account, nil, inChild, reenters},
		trial{"the other meanwhile", here, ctx, account, nil, inChild, reenters},
		trial{"one, for another account", here, ctx, another, nil, inChild, takesIt},
		trial{"the other meanwhile", here, ctx, another, nil, inChild, excluded},
	)
}

// handedOn shows a Lease from Lock. No goroutine owns it; a call with the Lease's context
// re-enters.
func (t *trials) handedOn(ctx context.Context, here *fairlock.Locker) error {
	lease, err := here.Lock(ctx, account)
	if err != nil {
		return err
	}
	t.token = lease.Token()
	t.Say("\nUnder a Lease of Lock, which belongs to no goroutine:")
	t.try(
		trial{"the same goroutine, with the context of before", here, ctx, account, nil, inPlace, excluded},
		trial{"the same goroutine, with the Lease's context", here, lease.Context(), account, nil, inPlace, reenters},
		trial{"a child goroutine, with the Lease's context", here, lease.Context(), account, nil, inChild, reenters},
	)
	return lease.Unlock(ctx)
}
