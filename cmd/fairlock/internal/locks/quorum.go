package locks

import (
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/server"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/quorum"
)

// openQuorum makes the one Locker of a quorum.
func (k *Keyspace) openQuorum(s *Store, kinds []string) (err error) {
	if !slices.Contains(kinds, Fair) {
		if slices.Contains(kinds, Redisson) {
			return k.NoQuorum("--redisson", "Redisson keeps its locks on one server")
		}
		return k.NoQuorum("--plain", "its nodes hand over by their lines, so all its locks are fair")
	}
	if s.Servers, err = k.Nodes(); err != nil {
		return err
	}
	s.Lockers = []Locker{{Quorum, k.String(), NewQuorum(&k.Connection, s.Servers, k.Prefix, slog.New(s.Notices))}}
	return nil
}

// NewQuorum returns a Locker on these nodes of a quorum, as the flags describe the quorum. An empty
// prefix means the default.
func NewQuorum(c *server.Connection, nodes []redis.UniversalClient, prefix string, log *slog.Logger, options ...quorum.Option) *quorum.Locker {
	options = append(options, quorum.WithLogger(log))
	if prefix != "" {
		options = append(options, quorum.WithPrefix(prefix))
	}
	if c.LongestLease != 0 {
		options = append(options, quorum.WithLongestLease(c.LongestLease))
	}
	if c.Set != "" {
		options = append(options, quorum.WithSet(c.Set))
	}
	return quorum.New(nodes, options...)
}

// Connect returns a Locker with this lease for locks of one kind, or for those of the quorum that
// the flags name. What it also returns closes the Locker and its connections.
func (k *Keyspace) Connect(kind string, log *slog.Logger, lease time.Duration) (fairlock.Interface, func(), error) {
	var l fairlock.Interface
	s := &Store{}
	if k.Quorum() {
		nodes, err := k.Nodes()
		if err != nil {
			return nil, nil, err
		}
		s.Servers, l = nodes, NewQuorum(&k.Connection, nodes, k.Prefix, log, quorum.WithLease(lease))
	} else {
		rdb, err := k.Connection.Open()
		if err != nil {
			return nil, nil, err
		}
		s.Servers, l = []redis.UniversalClient{rdb}, New(rdb, kind, k.Prefix, log, fairlock.WithLease(lease))
	}
	s.Lockers = []Locker{{Interface: l}}
	return l, s.Close, nil
}
