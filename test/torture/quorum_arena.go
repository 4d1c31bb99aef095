package torture

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/quorum"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/workers"
)

// parties is how many workers of a quorum there are at any time.
const parties = 4

// senate is the nodes of a quorum, and the seats of its workers.
type senate struct {
	venue
	nodes []*node
	seats []*member
}

// node is a server of a quorum.
type node struct {
	*redistest.Server
	number int // from 1
	dir    string
	admin  *redis.Client
	busy   bool // it is killed, stopped, or in a state that has yet to be undone
	down   bool // it is killed or stopped
}

// member is a seat with a proxy before each node.
type member struct {
	seat
	proxies []*faultproxy.Proxy
	hurt    []bool // which of them are harmed
}

func newSenate(t testing.TB, n int, seed uint64, dir string) *senate {
	t.Helper()
	s := &senate{venue: newVenue(t, seed, dir)}
	for i := range n {
		of := &node{number: i + 1, dir: filepath.Join(dir, fmt.Sprint("node-", i+1))}
		s.ok(os.MkdirAll(of.dir, 0o700))
		args := append(workers.JournalArgs(of.dir), "--appendfsync", "everysec", "--enable-debug-command", "yes",
			"--user", saboteurs, "on", "nopass", "~*", "&*", "+@all")
		of.Server = redistest.Start(t, args...)
		of.admin = of.Client(t, func(o *redis.Options) {
			o.ContextTimeoutEnabled, o.MaxRetries, o.Username, o.Password = true, -1, saboteurs, "any"
		})
		s.nodes = append(s.nodes, of)
	}
	s.founds()
	for i := range parties {
		m := &member{seat: seat{number: i}, hurt: make([]bool, n)}
		for _, of := range s.nodes {
			p := faultproxy.New(t, of.Addr())
			p.Forget()
			m.proxies = append(m.proxies, p)
		}
		s.seats = append(s.seats, m)
		s.fill(m)
	}
	return s
}

// founds makes a quorum of the nodes.
func (s *senate) founds() {
	s.t.Helper()
	l := s.locker()
	s.ok(l.Init(context.Background()))
	s.ok(l.Close())
	for _, n := range s.nodes {
		s.ok(n.remember())
	}
}

// locker is a Locker of the test's own.
func (s *senate) locker() *quorum.Locker {
	var nodes []redis.UniversalClient
	for _, n := range s.nodes {
		nodes = append(nodes, n.admin)
	}
	return quorum.New(nodes, quorum.WithSet(set), quorum.WithLongestLease(most), quorum.WithLease(leaseTime))
}

// fill starts a worker.
func (s *senate) fill(m *member) {
	s.t.Helper()
	var nodes []string
	for _, p := range m.proxies {
		nodes = append(nodes, p.Addr())
	}
	s.hire(&m.seat, "", nodes)
}

func (s *senate) need() int { return len(s.nodes)/2 + 1 }

// remember keeps a copy of what the node has written: yesterday's data for a restart to come.
func (n *node) remember() error {
	yesterday := filepath.Join(n.dir, "yesterday")
	if err := os.RemoveAll(yesterday); err != nil {
		return err
	}
	return os.CopyFS(yesterday, os.DirFS(filepath.Join(n.dir, journalDir)))
}

// These are the states in which a node restarts.
const (
	empty     = "empty"
	itsOwn    = "with its AOF"
	yesterday = "with yesterday's AOF"
)

var states = []string{empty, itsOwn, yesterday}

// restart starts a killed node with that data.
func (n *node) restart(state string) error {
	data := filepath.Join(n.dir, journalDir)
	var err error
	if state != itsOwn {
		err = os.RemoveAll(data)
	}
	if state == yesterday && err == nil {
		err = os.CopyFS(data, os.DirFS(filepath.Join(n.dir, "yesterday")))
	}
	if err == nil {
		n.Restart()
	}
	return err
}
