package lua

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Scan goes through the locks under a prefix, a page at a time.
type Scan struct {
	s      *Server
	prefix string
	match  string
	count  int
	nodes  []redis.UniversalClient // still to be scanned; the first is being scanned
	cursor string
	seen   map[Keys]bool // locks of which a key was found
}

// Listed is a lock that a Scan found.
type Listed struct {
	Name  string
	Keys  Keys
	State State // with no waiter but the first
}

// Scan begins a Scan that looks at about count keys at a time.
func (s *Server) Scan(prefix string, count int) *Scan {
	// A lock that is held has a record; a lock that is only waited for has a queue.
	return &Scan{s: s, prefix: prefix, match: ScanPattern(prefix), count: count, cursor: "0", seen: make(map[Keys]bool)}
}

// ScanPattern matches the keys by which locks under a prefix are found: records and queues.
func ScanPattern(prefix string) string { return globbed(prefix) + ":[lq]*" }

// Next is the next page, which may be empty, and whether there are more. It sends two requests: one
// for the keys, and one to each node that has a lock of the page. No page shows a lock that an
// earlier page has shown.
func (sc *Scan) Next(ctx context.Context) (page []Listed, more bool, err error) {
	if sc.nodes == nil {
		if sc.nodes, err = sc.s.masters(ctx); err != nil {
			return nil, false, err
		}
		if len(sc.nodes) == 0 {
			return nil, false, errors.New("the cluster names no node that has keys")
		}
	}
	found, next, err := sc.s.scanPage(ctx, sc.nodes[0], sc.cursor, sc.match, sc.count)
	if err != nil {
		return nil, false, err
	}
	if sc.cursor = next; next == "0" {
		sc.nodes = sc.nodes[1:]
	}
	for _, key := range found {
		if l, ok := sc.listed(key); ok && !sc.seen[l.Keys] {
			sc.seen[l.Keys] = true
			page = append(page, l)
		}
	}
	return page, len(sc.nodes) > 0, sc.s.inspectAll(ctx, page)
}

// ScanPage is one request of a SCAN of a single server: the keys among about count that match,
// and the cursor of the next page. It is "0" for the first page, and after the last.
func (s *Server) ScanPage(ctx context.Context, cursor, match string, count int) (keys []string, next string, err error) {
	own, over := s.under(ctx)
	defer over()
	return s.scanPage(own, s.rdb, cursor, match, count)
}

// scanPage is ScanPage of a node.
func (s *Server) scanPage(ctx context.Context, node redis.UniversalClient, cursor, match string, count int) (keys []string, next string, err error) {
	// Unlike a script, it may be repeated by go-redis.
	scan := redis.NewCmd(ctx, "scan", cursor, "match", match, "count", count)
	if err := s.bounded(ctx, MostKept, func() { _ = process(ctx, node, scan) }); err != nil { // it keeps its own
		return nil, "", err
	}
	reply, err := scan.Slice()
	if err != nil {
		return nil, "", seen(err)
	}
	r := reader{list: reply}
	next, keys = r.string(), r.strings()
	_, err = decoded(next, &r, "scan", reply)
	return keys, next, err
}

// listed is the lock that a key belongs to.
func (sc *Scan) listed(key string) (Listed, bool) {
	name, ok := strings.CutPrefix(key, sc.prefix+":lock:")
	if !ok {
		name, ok = strings.CutPrefix(key, sc.prefix+":queue:")
	}
	name, keys, err := Named(sc.prefix, sc.prefix+":lock:"+name)
	return Listed{Name: name, Keys: keys}, ok && err == nil
}

// inspectAll looks at all locks of a page at once.
func (s *Server) inspectAll(ctx context.Context, page []Listed) error {
	pipe := s.rdb.Pipeline()
	replies := make([]*redis.Cmd, len(page))
	for i, l := range page {
		replies[i] = pipe.Do(ctx, append(inspectScript.on(l.Keys.all(), 2), 0, 1)...)
	}
	if err := s.bounded(ctx, MostKept, func() { _ = exec(ctx, pipe) }); err != nil { // each reply has its own
		return err
	}
	for i, cmd := range replies {
		reply, err := cmd.Slice()
		err = seen(err)
		if err == nil {
			page[i].State, err = decodeState(reply)
		} else if Says(err, "NOSCRIPT") {
			page[i].State, err = s.Inspect(ctx, page[i].Keys, 0, 1)
		}
		if err != nil && strings.Contains(err.Error(), "WRONGTYPE") {
			page[i].State.Damaged, err = s.occupied(ctx, page[i].Keys, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// occupied is why the lock cannot be read, if one of its keys has another type and there is a lock
// all the same; nil if all that was found is somebody else's.
func (s *Server) occupied(ctx context.Context, keys Keys, why error) (damaged, err error) {
	pipe := s.rdb.Pipeline() // it needs no other right than inspect.lua
	record, line := pipe.HGetAll(ctx, keys.Record()), pipe.LLen(ctx, keys.Queue())
	if err := s.bounded(ctx, MostKept, func() { _ = exec(ctx, pipe) }); err != nil { // each reply has its own
		return nil, err
	}
	for _, err := range []error{seen(record.Err()), seen(line.Err())} {
		if err != nil && !WrongType(err) {
			return nil, err
		}
	}
	if _, held := record.Val()["owner"]; held || line.Val() > 0 {
		return fmt.Errorf("a key has another type: %w", why), nil
	}
	return nil, nil
}

// masters are the nodes that have keys. A cluster's client may ask any node which these are.
func (s *Server) masters(ctx context.Context) ([]redis.UniversalClient, error) {
	if !s.Sharded() {
		return []redis.UniversalClient{s.rdb}, nil
	}
	var mu sync.Mutex // guards nodes
	var nodes []redis.UniversalClient
	var err error
	if kept := s.bounded(ctx, MostKept, func() {
		err = s.cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, node)
			return nil
		})
	}); kept != nil {
		return nil, kept
	}
	return nodes, seen(err)
}
