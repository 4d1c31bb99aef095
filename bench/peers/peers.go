// Package peers has one adapter for each way of locking that is measured: Fairlock, what people would pick instead, and
// floors, which do only what the wire asks of any lock. A file for each.
package peers

import (
	"context"
	"errors"
	"slices"
	"time"
)

// ErrRefused is what Try returns when the lock is not to be had at once.
var ErrRefused = errors.New("refused")

// Lock is a lock that is held.
type Lock interface {
	Unlock(ctx context.Context) error
}

// Locker gives out the locks of one peer in one process.
type Locker interface {
	// Lock waits for the lock. A peer that can tell calls queued, unless it is nil, once it is certain that the server has
	// seen this call and that it has to wait: so the order of grants can be judged.
	Lock(ctx context.Context, name string, queued func()) (Lock, error)
	Close() error
}

// Trier is a Locker that can refuse at once: when the line is full if it has one, otherwise when somebody has the lock.
type Trier interface {
	Try(ctx context.Context, name string, waiters int) (Lock, error)
}

// Preparer is a Locker whose locks have to exist before they can be taken.
type Preparer interface {
	Prepare(ctx context.Context, name string) error
}

// Placed is a Lock that knows its place in the peer's own order.
type Placed interface {
	Place() int64
}

// Config is what every peer is told, so that all are asked for the same.
type Config struct {
	Addr    string        // of the server, or of a proxy before it
	Lease   time.Duration // how long a lock outlives a holder that has died
	Waiters int           // how many calls of this process wait at once
}

// The servers that a peer can stand on.
const (
	Redis = "redis"
	Etcd  = "etcd"
)

// Peer is one way of locking.
type Peer struct {
	Name     string
	Server   string                       // Redis or Etcd
	Module   string                       // whose version the tables say; "" is this tree or the benchmark itself
	Floor    bool                         // no lock, but what bounds one
	Requests []string                     // the commands that it sends itself; what else is counted was called by its scripts
	Only     []string                     // the workloads that it is for; nil is all
	Cannot   map[string]string            // workloads that it cannot do, and why
	Most     map[string]Limit             // workloads that it can do up to a size
	Open     func(Config) (Locker, error) // with I/O if it must
	About    string                       // how it is used here, for the notes under the tables
}

// Limit is the largest size of a workload that a peer can do.
type Limit struct {
	Size int
	Why  string
}

// All lists the peers in the order of the tables.
func All() []Peer {
	return []Peer{
		fair, plain, redislockPeer, redsyncPeer, rueidislockPeer, redissonPeer, etcdPeer, // the locks
		fairAuto, redislockAuto, redsyncAuto, // the same with pipelines
		ping, noop, setnx, calls, callsAuto, baton, told, toldCalls, get, // the floors
	}
}

// Find returns the peer of that name.
func Find(name string) (Peer, bool) {
	all := All()
	i := slices.IndexFunc(all, func(p Peer) bool { return p.Name == name })
	if i < 0 {
		return Peer{}, false
	}
	return all[i], true
}

// Does reports whether the peer does a workload of the given size, and if not, why: "" where it is simply not meant to.
func (p Peer) Does(workload string, size int) (why string, ok bool) {
	if p.Only != nil && !slices.Contains(p.Only, workload) {
		return "", false
	}
	if why, ok := p.Cannot[workload]; ok {
		return why, false
	}
	if most, ok := p.Most[workload]; ok && size > most.Size {
		return most.Why, false
	}
	return "", true
}

// scripted are the commands of a client that runs scripts and listens.
var scripted = []string{"evalsha", "eval", "ping", "subscribe", "unsubscribe"}
