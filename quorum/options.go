package quorum

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
)

// DefaultLongestLease is the longest lease of a quorum, unless told otherwise.
const DefaultLongestLease = time.Minute

// Option configures a Locker. Only this package makes any.
type Option interface{ apply(*settings) }

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

// settings are what the Options set.
type settings struct {
	engine []engine.Option
	prefix string
	set    string // of nodes
	named  bool   // the set, by WithSet
	most   time.Duration
	err    error
}

func newSettings(nodes []redis.UniversalClient, options []Option) settings {
	s := settings{most: DefaultLongestLease, set: setOf(nodes), err: checkNodes(nodes)}
	for _, o := range options {
		if o == nil {
			s.err = errors.Join(s.err, engine.Invalid("an Option is nil"))
			continue
		}
		o.apply(&s)
	}
	s.set = fmt.Sprintf("%d nodes: %s", len(nodes), s.set) // majorities of another number need not meet these
	return s
}

func checkNodes(nodes []redis.UniversalClient) error {
	if n := len(nodes); n < 3 || n%2 == 0 {
		return engine.Invalid("%d nodes: a quorum has an odd number of them, and at least 3", n)
	}
	for i, rdb := range nodes {
		if rdb == nil || reflect.ValueOf(rdb).Kind() == reflect.Pointer && reflect.ValueOf(rdb).IsNil() {
			return engine.Invalid("node %d: the client is nil", i+1)
		}
		if _, ok := rdb.(*redis.Client); !ok {
			return engine.Unsupported("node %d: %T: a node is one master, and has a client of its own", i+1, rdb)
		}
		for j, other := range nodes[:i] {
			if other == rdb || other.(*redis.Client).Options().Addr == rdb.(*redis.Client).Options().Addr {
				return engine.Invalid("nodes %d and %d are one server", j+1, i+1)
			}
		}
	}
	return nil
}

// setOf names a set of nodes: by their addresses, in any order.
func setOf(nodes []redis.UniversalClient) string { return strings.Join(sorted(nodes), " ") }

// sorted are the addresses of nodes, in order.
func sorted(nodes []redis.UniversalClient) (addresses []string) {
	for _, rdb := range nodes {
		if client, ok := rdb.(*redis.Client); ok && client != nil {
			addresses = append(addresses, client.Options().Addr)
		}
	}
	slices.Sort(addresses)
	return addresses
}

// numberOf is which node of the set a node is, from 1 on. Everybody counts the nodes alike: by
// their addresses, or in the order of New if the set has a name.
func (s *settings) numberOf(i int, nodes []redis.UniversalClient) int {
	if client, ok := nodes[i].(*redis.Client); ok && client != nil && !s.named {
		return slices.Index(sorted(nodes), client.Options().Addr) + 1
	}
	return i + 1
}

// WithLongestLease sets the longest lease that anybody may ask for, the same for everybody. A node
// that has lost what it granted grants nothing for as long, and for 3 s and a claim of that lease
// at least. From 100 ms to 366 days, in whole milliseconds; default a minute. [Lease.Extend] asks
// for a lease a ninth longer than its duration, and is an ErrInvalid beyond this.
func WithLongestLease(d time.Duration) Option {
	return option(func(s *settings) {
		s.most = d
		if d < engine.MinLease || d > engine.MaxLease || d%time.Millisecond != 0 {
			s.err = errors.Join(s.err, engine.Invalid("WithLongestLease: %v is not from %v to %v, in whole milliseconds", d, engine.MinLease, engine.MaxLease))
		}
	})
}

// WithSet names the set of nodes, where their addresses are not the same for everybody. Then
// everybody gives New the nodes in the same order. Default the addresses. A node keeps which of how
// many nodes of which set it is; one that keeps something else is an error.
func WithSet(name string) Option {
	return option(func(s *settings) { s.set, s.named = name, true })
}

// WithPrefix sets what all keys and channels begin with. Default "quorum".
func WithPrefix(prefix string) Option {
	return option(func(s *settings) { s.engine = append(s.engine, engine.WithPrefix(prefix)) })
}

// WithLease sets how long a lock outlives a holder that no longer renews it. Default 30 s, from
// 100 ms to the quorum's longest ([WithLongestLease]).
func WithLease(d time.Duration) Option {
	return option(func(s *settings) { s.engine = append(s.engine, engine.WithLease(d)) })
}

// WithLogger sets where the Locker reports what it cannot tell any caller. Default slog.Default().
func WithLogger(logger *slog.Logger) Option {
	return option(func(s *settings) { s.engine = append(s.engine, engine.WithLogger(logger)) })
}

// WithIdentity sets how a nested call is recognised as the holder's own. Default ByContext.
func WithIdentity(identity Identity) Option {
	return option(func(s *settings) { s.engine = append(s.engine, engine.WithIdentity(identity)) })
}

// WithObserver has the Locker tell o what happens. None by default.
func WithObserver(o Observer) Option {
	return option(func(s *settings) { s.engine = append(s.engine, engine.WithObserver(o)) })
}

// WithEngine is for a simulation: only the engine makes its options.
func WithEngine(o engine.Option) Option {
	return option(func(s *settings) { s.engine = append(s.engine, o) })
}

// LeaseFor gives the call a fixed lease, which is not renewed. From 100 ms to the quorum's longest.
// It ends later if Extend or a nested call asks for that. A nested call without LeaseFor puts the
// lock under a watchdog until it is unlocked.
func LeaseFor(d time.Duration) LockOption { return engine.LeaseFor(d) }

// WaitAtMost bounds the waiting, apart from the context. After d the call returns ErrHeld. It
// returns a *WaitError if no node said anything, or a majority has yet to confirm LeaseFor. 0 tries
// once.
func WaitAtMost(d time.Duration) LockOption { return engine.WaitAtMost(d) }

// MaxWaiters makes the call return ErrQueueFull if n or more wait already at so many nodes that no
// majority is left.
func MaxWaiters(n int) LockOption { return engine.MaxWaiters(n) }

// Note is shown by Inspect.
func Note(text string) LockOption { return engine.Note(text) }

// OnQueued makes a call that has to wait call f once, in the caller's own goroutine, with the
// position at which it joined the line. f is called again only if the call has to join anew; and by
// LockAll in each line.
func OnQueued(f func(position int)) LockOption { return engine.OnQueued(f) }
