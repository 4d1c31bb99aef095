package torture

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// watch looks at what stands at the nodes, again and again.
type watch struct {
	end     chan struct{}
	looking sync.WaitGroup

	mu   sync.Mutex // guards what follows
	seen map[sight][]stretch
	slow []*trouble // when a node took long to answer
}

// sight is a ticket at a node: in line, or with the node's vote.
type sight struct {
	node   int
	lock   string
	ticket string
}

// looks is the time between two looks at a node.
const looks = 100 * time.Millisecond

// tardy is for how long a look may take. On a busy machine a node may stand still for longer, and
// clients take it for away soon after.
const tardy = 100 * time.Millisecond

func watchNodes(nodes []*node) *watch {
	w := &watch{end: make(chan struct{}), seen: make(map[sight][]stretch)}
	for _, n := range nodes {
		w.looking.Go(func() { w.watches(n.number, n.admin) })
	}
	return w
}

func (w *watch) watches(node int, rdb *redis.Client) {
	for last := now(); ; last = now() {
		select {
		case <-w.end:
			return
		case <-time.After(looks):
		}
		w.late(node, last+int64(looks), now()) // all proxies are in this process
		for _, lock := range append(slices.Clone(elected), robbed) {
			w.look(node, rdb, lock)
		}
	}
}

// look looks once. A node that does not answer shows nothing.
func (w *watch) look(node int, rdb *redis.Client, lock string) {
	ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
	defer cancel()
	at := now()
	pipe := rdb.Pipeline()
	line := pipe.ZRange(ctx, voteKey("queue", lock), 0, -1)
	holder := pipe.HGet(ctx, voteKey("lock", lock), "ticket")
	_, _ = pipe.Exec(ctx) // each command has its own answer
	answered := now()
	tickets := line.Val()
	if ticket := holder.Val(); ticket != "" {
		tickets = append(tickets, ticket)
	}
	w.late(node, at, answered)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ticket := range tickets {
		w.saw(sight{node, lock, ticket}, at)
	}
}

// late notes that a node was slow, if it was.
func (w *watch) late(node int, from, to int64) {
	if to-from <= int64(tardy) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = append(w.slow, &trouble{Kind: "slow", Seat: everybody, Node: node, From: from, To: to})
}

// saw notes a ticket. One that was not there for some looks has come back. w.mu must be held.
func (w *watch) saw(s sight, at int64) {
	all := w.seen[s]
	if n := len(all); n > 0 && at-all[n-1].to <= int64(10*looks) {
		all[n-1].to = at
		return
	}
	w.seen[s] = append(all, stretch{from: at, to: at})
}

// ends ends the looking.
func (w *watch) ends() {
	close(w.end)
	w.looking.Wait()
}

// haunting lists the tickets that were at a node for long after their calls had ended. troubles are
// those of all nodes; longest is for how long a ticket stayed at most while nothing hindered its
// process.
func (w *watch) haunting(calls map[string]*call, troubles []*trouble) (wrong []string, longest time.Duration) {
	for s, all := range w.seen {
		c := calls[note(s.ticket)]
		if c == nil {
			wrong = append(wrong, "nobody's ticket: "+s.ticket)
			continue
		}
		if c.ends() == 0 || !c.owes() {
			continue
		}
		for _, at := range all {
			free := c.life.undisturbed(hindering(s.node, c, troubles), max(at.from, c.ends()), max(at.to, c.ends()))
			longest = max(longest, free)
			if free > c.life.leaving() {
				wrong = append(wrong, strings.Join([]string{
					"node", strconv.Itoa(s.node), "lock", s.lock, s.ticket, "was there from", clock(at.from), "to", clock(at.to),
					"for", free.String(), "of which nothing hindered its process:", c.String(),
				}, " "))
			}
		}
	}
	return wrong, longest
}

// hindering is what kept a call's process from taking back what it had at a node: troubles of the
// process, of the node, and between them. Yesterday's data holds yesterday's tickets: those end
// when they no longer count as alive.
func hindering(node int, c *call, troubles []*trouble) []*trouble {
	var all []*trouble
	for _, t := range troubles {
		if t.Node != 0 && t.Node != node || !t.concerns(c.life) {
			continue
		}
		if strings.HasSuffix(t.Kind, yesterday) && c.began < t.From {
			old := *t
			old.To += int64(liveness + most)
			t = &old
		}
		all = append(all, t)
	}
	return all
}
