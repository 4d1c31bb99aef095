package faultproxy

import (
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// Proxy is a TCP proxy on loopback before one Redis server. Its methods may be
// called from any goroutine.
type Proxy struct {
	tb       testing.TB
	upstream string
	listener net.Listener
	gate     gate
	closed   chan struct{}  // closed when the test has ended
	running  sync.WaitGroup // all goroutines of the proxy

	mu       sync.Mutex // guards what follows
	refusing bool
	rules    []*Handle          // in the order of Add
	seen     [][]string         // the arguments of every request so far
	forgets  bool               // requests are not kept in seen
	links    map[*link]struct{} // nil once the proxy is closed
	tear     tear
}

// tear is what Tear still has to do to the next message for a subscribed connection.
type tear struct {
	at    int
	pause time.Duration // 0: nothing
}

// New starts a proxy before the server at upstreamAddr and ends it, with all
// its connections and goroutines, when the test ends.
func New(tb testing.TB, upstreamAddr string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("faultproxy: %v", err)
	}
	p := &Proxy{
		tb: tb, upstream: upstreamAddr, listener: listener,
		closed: make(chan struct{}), links: make(map[*link]struct{}),
	}
	p.running.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// Addr returns the host:port at which clients reach the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Add puts a rule in force, behind those added before, for requests that have
// not been forwarded yet.
func (p *Proxy) Add(rule Rule) *Handle {
	p.tb.Helper()
	if rule.Match == nil || rule.Action.kind == noAction {
		p.tb.Fatal("faultproxy: a Rule needs a Match and an Action")
	}
	h := newHandle(rule)
	p.mu.Lock()
	defer p.mu.Unlock()
	rules := slices.DeleteFunc(slices.Clone(p.rules), (*Handle).isRemoved) // a clone: judge reads the old ones
	p.rules = slices.Concat(rules, []*Handle{h})
	return h
}

// Forget has the proxy keep no requests for Count, which returns 0 from then on. It is for tests
// with millions of requests.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgets, p.seen = true, nil
}

// Count returns how many requests that match have come from clients so far,
// whatever became of them: a held or frozen request counts, a request that a
// client sent twice counts twice.
func (p *Proxy) Count(match func(args []string) bool) int {
	p.mu.Lock()
	seen := p.seen
	p.mu.Unlock()
	n := 0
	for _, args := range seen { // elements are never changed, only added
		if match(args) {
			n++
		}
	}
	return n
}

// Connections returns how many clients are connected now.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for l := range p.links {
		if !isClosed(l.gone) {
			n++
		}
	}
	return n
}

// CutAll resets every current connection, also while frozen. Requests that
// have not been forwarded are lost, except those that a [HoldRequest] rule
// holds. New connections are welcome: see [Proxy.Refuse].
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cutOff()
	}
}

// Half is one direction of a connection.
type Half int

// The halves of a connection.
const (
	ToClient Half = iota // what the server sends
	ToServer             // what the client sends
)

// CloseHalf ends one direction of every current connection. The side that listens there reads EOF
// after what has come through. What it sends is still forwarded until it closes too.
func (p *Proxy) CloseHalf(half Half) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.closeHalf(half)
	}
}

// Refuse makes the proxy reset new connections at once, or stop doing so.
// Current connections are left alone: see [Proxy.CutAll].
func (p *Proxy) Refuse(refusing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = refusing
}

// Freeze makes the network a black hole, or heals it: no byte, no connect and no close gets through
// in either direction while every socket stays open. Freeze(true) waits for a write that is under
// way; when it returns, nothing moves any more. Freeze(false) delivers what was sent meanwhile,
// also from clients that have closed since.
func (p *Proxy) Freeze(frozen bool) { p.gate.freeze(frozen) }

// Tear splits what the server next sends to a subscribed connection, or to one that subscribes with
// that reply. The first at bytes arrive, and the rest follows after the pause, with all that comes
// behind. A message of at most at bytes arrives whole, and the next one is torn instead.
func (p *Proxy) Tear(at int, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tear = tear{at, pause}
}

// Torn reports whether the tear has happened.
func (p *Proxy) Torn() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tear.pause == 0
}

// tears takes the pending tear for a message of this length.
func (p *Proxy) tears(length int) (at int, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, pause = p.tear.at, p.tear.pause; at >= length {
		return 0, 0
	}
	p.tear = tear{}
	return at, pause
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				p.tb.Errorf("faultproxy: accept: %v", err)
			}
			return
		}
		if l := newLink(p, client); p.admit(l) {
			p.running.Go(l.readRequests)
			p.running.Go(l.forward)
		} else {
			l.cutOff()
		}
	}
}

// admit registers a connection, unless connections are refused.
func (p *Proxy) admit(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusing || p.links == nil {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) note(args []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.forgets {
		p.seen = append(p.seen, args)
	}
}

// judge finds the rules for a request whose turn has come.
func (p *Proxy) judge(r request) *exchange {
	p.mu.Lock()
	rules := p.rules
	p.mu.Unlock()
	x := newExchange(r)
	for _, h := range rules { // without mu: Match may call the proxy
		observing := h.rule.Action.kind == observe
		if !observing && x.action.kind != noAction {
			continue // an earlier rule acts already
		}
		released, ok := h.claim(r.args)
		if !ok {
			continue
		}
		x.handles = append(x.handles, h)
		if !observing {
			x.action, x.released = h.rule.Action, released
		}
	}
	return x
}

func (p *Proxy) close() {
	close(p.closed)
	_ = p.listener.Close()
	p.mu.Lock()
	links := p.links
	p.links = nil
	for l := range links {
		l.cutOff()
		l.closeUpstream()
	}
	p.mu.Unlock()
	p.running.Wait()
}
