// Package peers has one adapter, and one file, for each measured way to lock: Fairlock, what people
// would pick instead, and floors. A floor does only what the wire asks of any lock.
package peers

import (
	"context"
	"errors"
	"slices"
	"time"
)

// ErrRefused is the error of Try when the lock is not to be had at once.
var ErrRefused = errors.New("refused")

// Lock is a held lock.
type Lock interface {
	Unlock(ctx context.Context) error
}

// Locker gives out the locks of one peer in one process.
type Locker interface {
	// Lock waits for the lock. If queued is not nil and the peer can tell, Lock calls queued once
	// it is certain that the server has seen the call and that the call has to wait. This lets the
	// workloads judge the order of grants.
	Lock(ctx context.Context, name string, queued func()) (Lock, error)
	Close() error
}

// Trier is a Locker that can refuse at once: when its line is full, or, without a line, when the
// lock is held.
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

// Contender is a Locker whose callers are in another process. It runs their loops there, so that
// the way to them is not measured.
type Contender interface {
	// Contend returns at c.Until, with the turns that ended after c.Start or have not ended. The
	// callers go on.
	Contend(c Contest) ([]Turn, error)
}

// Contest is callers that lock one name, hold it and give it back, again and again.
type Contest struct {
	Name           string
	First, Callers int // First is the number of the first caller, Callers how many there are
	Hold           time.Duration
	Start          time.Time // since when grants are of interest
	End            time.Time // since when the peer is asked to tell that callers wait
	Until          time.Time
}

// Turn is one call of a contest. Times are in Unix ns, 0 means that it has not happened.
type Turn struct {
	Caller                           int
	Began, Queued, Granted, Released int64
}

// Timed is a Lock in another process, which knows when Lock returned there and Unlock was called.
type Timed interface {
	Granted() time.Time
	Released() time.Time
}

// Elsewhere is a Locker that works in a process of its own.
type Elsewhere interface {
	// CPU returns the processor time that the process has used.
	CPU() (time.Duration, error)
	// Threads returns how many threads the process has, without those that only hold a lock.
	Threads() (int, error)
}

// Config is the same for all peers, so that they do the same.
type Config struct {
	Addr    string        // of the server, or of a proxy before it
	Lease   time.Duration // how long a lock outlives a dead holder
	Waiters int           // the largest number of calls of this process that wait at once
	Direct  string        // the server's address without a proxy, for what is not measured
	Warm    int           // locks that a peer takes and gives back first, if it has to get warm
}

// The servers that a peer can use.
const (
	Redis = "redis"
	Etcd  = "etcd"
)

// Peer is one way of locking.
type Peer struct {
	Name     string
	Server   string                       // Redis or Etcd
	Module   string                       // the module whose version the tables give; "" is this tree or the benchmark itself
	Floor    bool                         // no lock, but a bound of what a lock can do
	Requests []string                     // the commands that the peer sends itself; its scripts called the other counted ones
	Only     []string                     // the workloads that the peer is for; nil is all
	Cannot   map[string]string            // workloads that the peer cannot do, and why
	Most     map[string]Limit             // workloads that the peer can do up to a size
	Missing  func() error                 // why it is not measured here; nil: it needs only its server
	Slow     bool                         // to get ready: measured once, and with -quick if named
	Version  func() string                // of a peer that is no Go module, for the tables
	Open     func(Config) (Locker, error) // with I/O if the peer needs it
	About    string                       // how the peer is used here, for the notes under the tables
}

// Limit is the largest size of a workload that a peer can do.
type Limit struct {
	Size int
	Why  string
}

// All lists the peers in the order of the tables.
func All() []Peer {
	return []Peer{
		fair, plain, redislockPeer, redsyncPeer, rueidislockPeer, redissonPeer, redissonJar, etcdPeer, // the locks
		redissonJarHurried,                                     // the same with other settings
		fairPool, redislockPool, fairHurried, redislockHurried, // the same with more connections
		fairAuto, redislockAuto, redsyncAuto, // and with pipelines
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

// Does reports whether the peer does a workload of the given size. If not, why is the reason, or ""
// if the peer is not meant for the workload.
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

// scripted has the commands of a client that runs scripts and listens.
var scripted = []string{"evalsha", "eval", "ping", "subscribe", "unsubscribe"}
