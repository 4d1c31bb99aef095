package server

import (
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
)

// quorumForm is what a quorum in one word begins with.
const quorumForm = "quorum:"

// Quorum reports whether --redis names the nodes of a quorum.
func (c *Connection) Quorum() bool {
	return len(c.Redis) > 1 || len(c.Redis) == 1 && strings.HasPrefix(c.Redis[0], quorumForm)
}

// NoQuorum is the exit.Error for what cannot be done with a quorum, or nil if there is none.
func (c *Connection) NoQuorum(what, why string) error {
	if !c.Quorum() {
		return nil
	}
	return exit.Errorf(exit.Usage, "%s is not for a quorum: %s", what, why)
}

// Nodes makes a client for each node of a quorum. Its only I/O is to read the files for TLS.
func (c *Connection) Nodes() (nodes []redis.UniversalClient, err error) {
	sites, err := c.sites()
	if err != nil {
		return nil, err
	}
	if n := len(sites); n < 3 || n%2 == 0 {
		return nil, exit.Errorf(exit.Usage, "--redis names %d nodes: a quorum has an odd number of them, and at least 3", n)
	}
	var all []*redis.Options
	for i, s := range sites {
		form, u, err := s.address()
		if err != nil {
			return nil, err
		}
		if form != single {
			return nil, exit.Errorf(exit.Usage, "--redis: node %d is %s: a node of a quorum is one master by itself", i+1, s)
		}
		o, err := s.options(u)
		if err != nil {
			return nil, err
		}
		o.ContextTimeoutEnabled = true // a node that hangs must not hold up those who can do without it
		all = append(all, o)
	}
	for _, o := range all {
		nodes = append(nodes, redis.NewClient(o))
	}
	return nodes, nil
}

// sites returns the nodes that --redis names.
func (c *Connection) sites() (sites []*site, err error) {
	urls := c.Redis
	if len(urls) == 1 {
		urls = strings.Split(strings.TrimPrefix(urls[0], quorumForm), ",")
	}
	hush := secretive(strings.Join(urls, ""))
	for _, url := range urls {
		switch {
		case strings.HasPrefix(url, quorumForm):
			return nil, exit.Errorf(exit.Usage, "--redis: either quorum: with all nodes, or --redis once for each of them")
		case url == "":
			return nil, exit.Errorf(exit.Usage, "--redis: a node without an address: quorum:HOST,HOST,HOST")
		}
		sites = append(sites, &site{url: schemed(url), files: &c.TLSFiles, hush: hush})
	}
	return sites, nil
}

// quorumString says where the nodes are, without passwords.
func (c *Connection) quorumString() string {
	sites, err := c.sites()
	if err != nil {
		return "?"
	}
	var all []string
	for _, s := range sites {
		all = append(all, s.String())
	}
	return "the quorum " + strings.Join(all, ", ")
}
