package java

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Kind is a kind of Redisson's locks.
type Kind string

// The kinds that Go code can share.
const (
	Fair  Kind = "fair"  // getFairLock
	Plain Kind = "plain" // getLock
)

// Thread is a thread of a JVM, so it has an identity of its own. It runs its calls one after the
// other. Each method returns at once; the [Call] is the answer to come.
type Thread struct {
	j    *JVM
	name string
}

// Thread returns the thread of that name, which is made when it is first asked something.
func (j *JVM) Thread(name string) *Thread { return &Thread{j: j, name: name} }

// Owner asks for the identity of the thread: "<uuid>:<threadId>".
func (t *Thread) Owner() *Call { return t.j.ask(t.name, "owner") }

// Lock calls lock().
func (t *Thread) Lock(kind Kind, name string) *Call { return t.j.ask(t.name, "lock", kind, name) }

// LockLease calls lock(lease, MILLISECONDS), without a watchdog.
func (t *Thread) LockLease(kind Kind, name string, lease time.Duration) *Call {
	return t.j.ask(t.name, "locklease", kind, name, lease.Milliseconds())
}

// LockInterruptibly calls lockInterruptibly().
func (t *Thread) LockInterruptibly(kind Kind, name string) *Call {
	return t.j.ask(t.name, "lockinterruptibly", kind, name)
}

// Interrupt interrupts what the thread is doing. It does not wait for that.
func (t *Thread) Interrupt() *Call { return t.j.ask(t.name, "interrupt") }

// TryLock calls tryLock().
func (t *Thread) TryLock(kind Kind, name string) *Call { return t.j.ask(t.name, "trylock", kind, name) }

// TryLockWait calls tryLock(wait, MILLISECONDS).
func (t *Thread) TryLockWait(kind Kind, name string, wait time.Duration) *Call {
	return t.j.ask(t.name, "trylockwait", kind, name, wait.Milliseconds(), "MILLISECONDS")
}

// TryLockSeconds calls tryLock(seconds, SECONDS). That is not the same: without a lease, Redisson
// stands in line with that many milliseconds, and takes itself out with that many seconds.
func (t *Thread) TryLockSeconds(kind Kind, name string, seconds int) *Call {
	return t.j.ask(t.name, "trylockwait", kind, name, seconds, "SECONDS")
}

// TryLockLease calls tryLock(wait, lease, MILLISECONDS), without a watchdog.
func (t *Thread) TryLockLease(kind Kind, name string, wait, lease time.Duration) *Call {
	return t.j.ask(t.name, "trylocklease", kind, name, wait.Milliseconds(), lease.Milliseconds())
}

// Unlock calls unlock().
func (t *Thread) Unlock(kind Kind, name string) *Call { return t.j.ask(t.name, "unlock", kind, name) }

// ForceUnlock calls forceUnlock().
func (t *Thread) ForceUnlock(kind Kind, name string) *Call {
	return t.j.ask(t.name, "forceunlock", kind, name)
}

// IsLocked calls isLocked().
func (t *Thread) IsLocked(kind Kind, name string) *Call {
	return t.j.ask(t.name, "islocked", kind, name)
}

// Holds calls isHeldByCurrentThread().
func (t *Thread) Holds(kind Kind, name string) *Call { return t.j.ask(t.name, "heldbyme", kind, name) }

// Count calls getHoldCount().
func (t *Thread) Count(kind Kind, name string) *Call { return t.j.ask(t.name, "count", kind, name) }

// TTL calls remainTimeToLive(), which is in milliseconds: -2 without a lock, -1 without an expiry.
func (t *Thread) TTL(kind Kind, name string) *Call { return t.j.ask(t.name, "ttl", kind, name) }

// Hammer is work for many threads of a JVM: each locks and unlocks one name in a loop.
type Hammer struct {
	Kind    Kind
	Name    string
	Threads int
	Rounds  int           // of all threads together; 0: there is a time
	For     time.Duration // ignored if there are Rounds
	Hold    time.Duration // how long a thread keeps the lock, to the microsecond
	// Counter is a key. Each holder counts itself in there, and out before it unlocks. If another
	// is there, that is an overlap. Others that hold the same lock may count themselves there, too.
	Counter string
	Tells   bool // [Call.Grants] has all grants
}

// Hammer starts to hammer. [Call.Hammered] has what came of it.
func (t *Thread) Hammer(h Hammer) *Call {
	return t.j.ask(t.name, "hammer", h.Kind, h.Name, h.Threads, h.Rounds,
		h.For.Milliseconds(), h.Hold.Microseconds(), h.Counter, h.Tells)
}

// Halt ends the hammer that the thread runs, when each of its threads has ended its round.
func (t *Thread) Halt() *Call { return t.j.ask(t.name, "halt") }

// Hammered is what came of a hammer.
type Hammered struct {
	Granted  int
	Overlaps int    // grants at which another was counted in
	Failures int    // rounds that threw an exception
	Failure  string // the last of them
}

// Hammered waits for the end of a hammer.
func (c *Call) Hammered(ctx context.Context) (Hammered, error) {
	text, err := c.Text(ctx)
	if err != nil {
		return Hammered{}, err
	}
	var h Hammered
	if _, err := fmt.Sscan(text, &h.Granted, &h.Overlaps, &h.Failures); err != nil {
		return h, fmt.Errorf("%s: %q: %w", c.what, text, err)
	}
	h.Failure = strings.SplitN(text, " ", 4)[3]
	return h, nil
}
