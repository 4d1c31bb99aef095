package quorum

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// names are what lead to nodes, and may be made to lead elsewhere.
type names struct {
	mu sync.Mutex // guards to
	to map[string]string
}

func (n *names) leads(name, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.to[name] = addr
}

func (n *names) dial(ctx context.Context, network, name string) (net.Conn, error) {
	n.mu.Lock()
	addr := n.to[name]
	n.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// named is a Locker that knows the nodes as a:1, b:1 and c:1.
func (w *world) named() (*Locker, *names) {
	w.Helper()
	all := &names{to: make(map[string]string)}
	var nodes []redis.UniversalClient
	for i, name := range []string{"a:1", "b:1", "c:1"} {
		all.leads(name, w.addrs[i])
		rdb := redis.NewClient(&redis.Options{Addr: name, MaxRetries: -1, DialerRetries: 1, Dialer: all.dial})
		w.Cleanup(func() { _ = rdb.Close() })
		nodes = append(nodes, rdb)
	}
	l := New(nodes, WithSet("named"))
	w.Cleanup(func() { _ = l.Close() })
	return l, all
}

// saysTwice fails unless an error says that two addresses lead to one server, and which.
func (w *world) saysTwice(what string, err error, server int) {
	w.Helper()
	_, run, _ := strings.Cut(w.direct[server].Info(w.Context(), "server").Val(), "run_id:")
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
	l, names := w.named()
	names.leads("c:1", w.addrs[1])
	for range 2 {
		_, err := l.TryLock(w.Context(), "x")
		w.saysTwice("TryLock", err, 1)
		_, err = l.Inspect(w.Context(), "x")
		w.saysTwice("Inspect", err, 1)
		w.saysTwice("ForceUnlock", l.ForceUnlock(w.Context(), "x"), 1)
		w.saysTwice("Init", l.Init(w.Context()), 1)
	}
	w.untouched()
	mended, _ := w.named()
	w.must(mended.Init(w.Context()))
	w.unlock(w.has(mended, "x"))
}

func TestANodeWhoseAddressComesToLeadToTheServerOfAnotherHasNoSecondVote(t *testing.T) {
	w := realNodes(t, 3)
	l, names := w.named()
	w.must(l.Init(w.Context()))
	w.unlock(w.has(l, "x"))
	_, err := l.Inspect(w.Context(), "x") // a first look would refuse them
	w.must(err)
	w.servers[2].Kill()
	w.until("the node is missed", func() bool {
		w.unlock(w.has(l, "y"))
		return l.nodes[2].away()
	})
	names.leads("c:1", w.addrs[1])
	var why error
	w.until("the node is known to be one that counts already", func() bool {
		w.unlock(w.has(l, "y"))
		why = l.nodes[2].reason()
		return l.nodes[2].away() && errors.Is(why, errTwice)
	})
	w.saysTwice("the node", why, 1)
	s, err := l.Inspect(w.Context(), "x")
	w.must(err)
	w.is(s.Nodes[2].Err, errTwice)

	w.servers[0].Kill()
	w.until("a majority is missed", func() bool {
		other, err := l.TryLock(w.Context(), "z")
		if err == nil {
			w.unlock(other)
		}
		return errors.Is(err, ErrUnreachable)
	})
	for range 5 {
		_, err = l.TryLock(w.Context(), "z")
		w.is(err, ErrUnreachable)
	}
	w.servers[2].Restart()
	names.leads("c:1", w.addrs[2])
	w.must(w.direct[1].Do(w.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err()) // they lead there yet
	w.until("the node is back", func() bool { return !l.nodes[2].away() })
}

// saying is a hook of a node that gives it a run id: embedded nodes have none.
type saying struct {
	wire
	mu  sync.Mutex // guards run
	run string
}

func (s *saying) says(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run = run
}

func (s *saying) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		s.sign(cmd)
		return err
	}
}

func (s *saying) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			s.sign(cmd)
		}
		return err
	}
}

// sign puts the run id into an answer to a meet.
func (s *saying) sign(cmd redis.Cmder) {
	c, ok := cmd.(interface{ Val() any })
	if len(cmd.Args()) < 2 || cmd.Args()[1] != s.sha || !ok {
		return
	}
	if reply, _ := c.Val().([]any); len(reply) == 4 {
		s.mu.Lock()
		defer s.mu.Unlock()
		reply[0] = s.run
	}
}

// say has the nodes say run ids to that Locker.
func (h *hushed) say(l *Locker, runs ...string) (all []*saying) {
	for i, run := range runs {
		s := &saying{wire: wire{sha: meetScript.Command(nil)[1].(string)}, run: run}
		l.nodes[i].rdb.(*redis.Client).AddHook(s)
		all = append(all, s)
	}
	return all
}

// stray reports whether a node counts as away because it is another one's server.
func stray(n *node) bool { return n.away() && errors.Is(n.reason(), errTwice) }

func TestANodeThatSaysLateThatItIsTheServerOfAnotherIsNotAskedForItsVote(t *testing.T) {
	for _, late := range []time.Duration{silence + 5*time.Millisecond, 2 * silence, 3 * time.Second} {
		inFakeTime(t, 3, func(h *hushed) {
			l := h.locker()
			h.say(l, "first", "second", "first")
			h.on(l, 2, meetScript, 0, late)
			lease := h.has(l, "x")
			for range 100 {
				time.Sleep(late / 50)
				if err := h.has(l, "y").Unlock(h.Context()); err != nil {
					h.Error(err)
				}
			}
			if !stray(l.nodes[2]) || h.nodes[2].Exists("quorum:lock:{x}") {
				h.Errorf("after %v: it is away: %t, %v", late, l.nodes[2].away(), l.nodes[2].reason())
			}
			if err := lease.Unlock(h.Context()); err != nil {
				h.Error(err)
			}
		})
	}
}

func TestTheServerOfANodeThatIsAwayIsAnothersOnlyWhenAllItsVotesAreOver(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		const most = 30 * time.Second
		l := h.afresh(WithLongestLease(most))
		nodes := h.say(l, "first", "second", "third")
		lease := h.has(l, "x")
		h.darken(0)
		nodes[2].says("first")
		h.nodes[2].SetError("LOADING it begins")
		_, _ = l.TryLock(h.Context(), "y") // they are missed
		time.Sleep(time.Second)
		h.nodes[2].SetError("")
		time.Sleep(most - 10*time.Second)
		if !stray(l.nodes[2]) {
			h.Errorf("it is away: %t, %v", l.nodes[2].away(), l.nodes[2].reason())
		}
		if time.Sleep(20 * time.Second); l.nodes[2].away() {
			h.Errorf("it is away: %v", l.nodes[2].reason())
		}
		_ = lease.Unlock(h.Context()) // it is lost
	})
}
