package quorum

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/written"
)

// names are where a:1, b:1 and c:1 lead.
type names struct {
	mu    sync.Mutex // guards all below
	to    []string
	conns [3][]net.Conn
}

func (n *names) dial(ctx context.Context, i int) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", n.to[i])
	if err == nil {
		n.conns[i] = append(n.conns[i], c)
	}
	return c, err
}

// lead has a name lead elsewhere, and ends its connections.
func (n *names) lead(i int, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.to[i] = to
	for _, c := range n.conns[i] {
		_ = c.Close() // go-redis may have closed it
	}
	n.conns[i] = nil
}

// named is a Locker that knows the nodes as a:1, b:1 and c:1. These lead to the addresses.
func (w *world) named(addrs ...string) *Locker {
	w.Helper()
	return w.by(&names{to: addrs})
}

// by is named, by names that may come to lead elsewhere.
func (w *world) by(n *names, options ...Option) *Locker {
	w.Helper()
	var nodes []redis.UniversalClient
	for i, name := range []string{"a:1", "b:1", "c:1"} {
		rdb := redis.NewClient(&redis.Options{
			Addr: name, MaxRetries: -1, DialerRetries: 1,
			Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return n.dial(ctx, i) },
		})
		w.Cleanup(func() { _ = rdb.Close() })
		nodes = append(nodes, rdb)
	}
	l := New(nodes, options...)
	w.Cleanup(func() { _ = l.Close() })
	return l
}

// saysTwice fails unless an error says that two addresses lead to one server, and which.
func (w *world) saysTwice(what string, err error) {
	w.Helper()
	_, run, _ := strings.Cut(w.direct[1].Info(w.Context(), "server").Val(), "run_id:")
	run, _, _ = strings.Cut(run, "\r\n")
	if !errors.Is(err, errTwice) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrUnreachable) {
		w.Errorf("%s says %v", what, err)
		return
	}
	for _, part := range []string{"b:1 and c:1", run} {
		if !strings.Contains(err.Error(), part) || part == "" {
			w.Errorf("%s does not say %q: %v", what, part, err)
		}
	}
}

// A handler of requests, or a leader that stands for election, goes on when somebody has mended it.
func TestTwoAddressesOfOneServerAreRefusedAsNoFaultOfTheCallAndNothingIsWritten(t *testing.T) {
	w := strangers(t)
	misnamed := func() *Locker { return w.named(w.addrs[0], w.addrs[1], w.addrs[1]) }
	l := misnamed()
	for range 2 {
		err := w.reached(func() error { _, err := l.TryLock(w.Context(), "x"); return err })
		w.saysTwice("TryLock", err)
		w.until("a look finds it out", func() bool {
			if _, err = l.Inspect(w.Context(), "x"); err == nil {
				l = misnamed() // it goes on without the node, which was silent
			}
			return err != nil
		})
		w.saysTwice("Inspect", err)
		w.saysTwice("ForceUnlock", l.ForceUnlock(w.Context(), "x"))
		w.saysTwice("Init", l.Init(w.Context()))
	}
	w.untouched()
	mended := w.named(w.addrs...)
	w.must(mended.Init(w.Context()))
	w.unlock(w.has(mended, "x"))
}

// nowhere is an address at which nobody listens.
const nowhere = "127.0.0.1:1"

// misled is a Locker that is led well, and one whose a:1 comes to lead nowhere by mislead, and its
// c:1 to the server of b:1.
func (w *world) misled(options ...Option) (right, wrong *Locker, n *names, mislead func()) {
	w.Helper()
	n = &names{to: slices.Clone(w.addrs)}
	right, wrong = w.named(w.addrs...), w.by(n, options...)
	w.must(right.Init(w.Context()))
	w.unlock(w.has(wrong, "x"))
	return right, wrong, n, func() {
		n.lead(0, nowhere)
		n.lead(2, w.addrs[1])
	}
}

func TestAServerToWhichASecondNameComesToLeadHasOneVote(t *testing.T) {
	onBoth(t, func(w *world) {
		var seen written.Text
		right, wrong, n, mislead := w.misled(WithLogger(slog.New(slog.NewTextHandler(&seen, nil))))
		mislead()
		for range 3 {
			if lease, err := wrong.TryLock(w.Context(), "x"); err == nil {
				w.Fatalf("it has two votes of one server: token %d", lease.Token())
			}
		}
		w.until("it says why", func() bool {
			return strings.Contains(seen.String(), "is another one") && strings.Contains(seen.String(), "its number is 2, and not 3, of 3 nodes")
		})
		w.unlock(w.has(right, "x"))
		n.lead(0, w.addrs[0])
		w.unlock(w.has(w.by(n), "x")) // who starts now does without the node, too
		n.lead(2, w.addrs[2])
		w.until("the node is back", func() bool { return !wrong.nodes[2].away() })
		w.unlock(w.has(wrong, "x"))
	})
}

func TestAWaiterHearsOfOneVoteOfAServerToWhichASecondNameComesToLead(t *testing.T) {
	w := realNodes(t, 3) // the others may give it a vote of 3 s, of which it does not hear
	right, wrong, _, mislead := w.misled()
	lease := w.has(right, "x")
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	waits := w.asks(ctx, wrong, "x")
	channels := func() int { return len(w.direct[1].PubSubChannels(w.Context(), "*"+wrong.core.ID).Val()) }
	w.until("it listens", func() bool { return channels() == 1 })
	mislead()
	w.until("it listens there under both names, to a channel for each", func() bool { return channels() == 2 })
	w.unlock(lease)
	lease = w.has(right, "x") // by the votes of the other two servers
	cancel()
	if o := w.ends(waits); o.err == nil && o.lease.Err() == nil { // else it had votes of two servers, before
		w.Errorf("two have it: tokens %d and %d", lease.Token(), o.lease.Token())
	}
	w.unlock(lease)
}

func TestAHolderThatIsMisledLosesItsLockBeforeSomebodyElseHasIt(t *testing.T) {
	w := realNodes(t, 3)
	right, wrong, _, mislead := w.misled(WithLease(3 * time.Second))
	lease := w.has(wrong, "x")
	w.until("all nodes know", func() bool {
		s, err := right.Inspect(w.Context(), "x")
		return err == nil && !slices.ContainsFunc(s.Nodes, func(n NodeView) bool { return n.Vote == nil || !n.Decided })
	})
	mislead()
	next := w.has(right, "x")
	if lease.Err() == nil {
		w.Errorf("two have it: tokens %d and %d", lease.Token(), next.Token())
	}
	w.unlock(next)
}

func TestANodeThatIsAskedAsAnotherOneRefuses(t *testing.T) {
	onBoth(t, func(w *world) {
		l := w.locker()
		lease := w.has(l, "x")
		waits := w.queues(l, "x")
		w.until("all nodes know both, and have voted alike", func() bool {
			kept := w.kept()
			return strings.Count(kept, l.core.ID+":") == 9 && strings.Count(kept, lease.Owner()+":") == 6
		})
		w.until("all nodes have the waiter in one place", func() bool {
			places := make(map[float64]bool)
			for _, rdb := range w.direct {
				for _, z := range rdb.ZRangeWithScores(w.Context(), "quorum:queue:{x}", 0, -1).Val() {
					if !strings.HasPrefix(z.Member.(string), lease.Owner()+":") {
						places[z.Score] = true
					}
				}
			}
			return len(places) == 1
		})
		before := w.kept()
		keys := w.keys(l, "x")
		first, second := l.nodes[0], l.nodes[1]
		for _, c := range l.calls {
			all := l.keysOf(keys, c.ticket)
			for what, err := range map[string]error{
				"enter": w.refusal(first, enterScript, all, c.arg, second.arg, l.args.most),
				"stand": w.refusal(first, enterScript, all, c.arg, second.arg, l.args.most, decimal(c.Place), 0, 0),
				"beat":  w.refusal(first, beatScript, all[:5], l.args.id, second.arg, l.args.most, c.arg),
				"leave": w.refusal(first, leaveScript, all, c.arg, second.arg, l.args.most, 0),
				"renew": w.refusal(first, renewScript, append([]any{l.nodeKey}, append(all[:4:4], all[5])...),
					l.args.id, second.arg, l.args.most, c.arg, lease.Token(), 60_000, 0, 1, 1, 1),
			} {
				if !errors.Is(err, errOther) {
					w.Errorf("%s: %v", what, err)
				}
			}
		}
		if after := w.kept(); after != before {
			w.Errorf("that has changed\n%s to\n%s", before, after)
		}
		w.until("the node is there again", func() bool { return !first.away() })
		w.unlock(lease)
		w.unlock(w.gets(waits))
	})
}

// refusal is the error of a script.
func (w *world) refusal(n *node, sc lua.Script, keys []any, args ...any) error {
	_, err := n.send(w.Context(), n.server, sc, sc.CommandOn(keys, args...))
	return err
}

func TestWhatAMisledProcessCannotTellTheRightServerItTellsOnceTheNameIsMended(t *testing.T) {
	onBoth(t, func(w *world) {
		_, wrong, n, _ := w.misled()
		another := func(i int) bool { return errors.Is(wrong.nodes[i].reason(), errOther) }
		lease := w.has(wrong, "x")
		votes := func() bool { return w.direct[2].PTTL(w.Context(), "quorum:lock:{x}").Val() > patience }
		w.until("the third node has it for long", votes)
		n.lead(2, w.addrs[1])
		w.unlock(lease)
		w.until("the leave is refused", func() bool { return another(2) })
		if !votes() {
			w.Error("the third node has heard of it")
		}
		n.lead(2, w.addrs[2])
		w.until("the right server has heard it", func() bool { return !votes() })

		n.lead(0, w.addrs[1])
		n.lead(2, w.addrs[1])
		waits := w.asks(w.Context(), wrong, "y")
		w.until("the others are another node", func() bool { return another(0) && another(2) })
		n.lead(0, w.addrs[0])
		n.lead(2, w.addrs[2])
		w.unlock(w.gets(waits))
	})
}
