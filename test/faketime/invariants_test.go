package faketime

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/bubbles"
	"github.com/fairlock/locks/test/pipes"
)

// bubble is an embedded server in fake time, and clients whose network can be stopped.
type bubble struct {
	*testing.T
	mini *pipes.Server
}

// enough is a pool size for all calls that ask at once in fake time. go-redis reuses the timers of
// calls that wait for a connection, and would pass them on to calls outside the bubble.
const enough = 1000

func inFakeTime(t *testing.T, test func(b *bubble)) {
	bubbles.Test(t, func(t *testing.T) {
		test(&bubble{t, pipes.New(t)})
	})
}

// network carries bytes for one client. When stopped, it drops them without a word.
type network struct {
	mini  *pipes.Server
	mu    sync.Mutex // guards what follows
	held  chan struct{}
	lost  [2]bool // to the server, and from it
	bytes int     // sent to the server
	epoch int     // connections of one before lose everything
	all   []net.Conn
	pumps sync.WaitGroup
}

func (n *network) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held = make(chan struct{})
}

// loseRequests loses what goes to the server, and loseReplies what comes from it, until resume.
func (n *network) loseRequests() { n.lose(0) }
func (n *network) loseReplies()  { n.lose(1) }

func (n *network) lose(way int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lost[way] = true
}

// sent returns how many bytes went to the server.
func (n *network) sent() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.bytes
}

func (n *network) count(way, bytes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bytes += bytes * (1 - way)
}

func (n *network) loses(way, epoch int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost[way] || epoch != n.epoch
}

// forgets loses all that goes over the present connections, as a firewall does that has forgotten
// them.
func (n *network) forgets() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.epoch++
}

func (n *network) resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lost = [2]bool{}
	if n.held != nil {
		close(n.held)
		n.held = nil
	}
}

func (n *network) pass() {
	for {
		n.mu.Lock()
		held := n.held
		n.mu.Unlock()
		if held == nil {
			return
		}
		<-held
	}
}

func (n *network) dial(ctx context.Context, name, addr string) (net.Conn, error) {
	server, err := n.mini.Dial(ctx, name, addr)
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	n.mu.Lock()
	n.all = append(n.all, theirs, server)
	epoch := n.epoch
	n.mu.Unlock()
	pump := func(way int, from, to net.Conn) {
		buffer := make([]byte, 64<<10)
		for {
			count, err := from.Read(buffer)
			n.pass()
			n.count(way, count)
			if err == nil && n.loses(way, epoch) {
				continue
			}
			if err == nil {
				_, err = to.Write(buffer[:count])
			}
			if err != nil {
				_, _ = from.Close(), to.Close()
				return
			}
		}
	}
	n.pumps.Go(func() { pump(0, theirs, server) })
	n.pumps.Go(func() { pump(1, server, theirs) })
	return ours, nil
}

// breaks ends all present connections.
func (n *network) breaks() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.all {
		_ = c.Close()
	}
	n.all = nil
}

// cut ends the network for good.
func (n *network) cut() {
	n.breaks()
	n.resume()
	n.pumps.Wait()
}

func (b *bubble) client(options ...fairlock.Option) (*fairlock.Locker, *network) {
	return onNetwork(b, b.mini, fairlock.New, options...)
}

// onNetwork makes a Locker with a network of its own; both end with the test.
func onNetwork[L fairlock.Interface](tb testing.TB, mini *pipes.Server, kind func(redis.UniversalClient, ...fairlock.Option) L, options ...fairlock.Option) (L, *network) {
	n := &network{mini: mini}
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: n.dial, PoolSize: enough})
	l := kind(rdb, append([]fairlock.Option{fairlock.WithLogger(slog.New(slog.DiscardHandler))}, options...)...)
	tb.Cleanup(func() {
		n.resume()
		_ = l.Close()
		_ = rdb.Close()
		n.cut()
	})
	return l, n
}

func (b *bubble) lock(l *fairlock.Locker, options ...fairlock.LockOption) *fairlock.Lease {
	b.Helper()
	lease, err := l.Lock(b.Context(), "x", options...)
	if err != nil {
		b.Fatal(err)
	}
	return lease
}

// queue has a call wait, and returns when the server has it in line as the nth.
func (b *bubble) queue(l *fairlock.Locker, nth int) <-chan *fairlock.Lease {
	b.Helper()
	result := make(chan *fairlock.Lease, 1)
	go func() {
		lease, err := l.Lock(context.Background(), "x")
		if err == nil {
			result <- lease
		}
	}()
	for {
		if line, _ := b.mini.List("fairlock:queue:{x}"); len(line) == nth {
			time.Sleep(10 * time.Millisecond) // and its subscription is up
			return result
		}
		time.Sleep(time.Millisecond)
	}
}

func (b *bubble) unlock(l *fairlock.Lease) {
	b.Helper()
	if err := l.Unlock(context.Background()); err != nil {
		b.Fatal(err)
	}
}

func TestAHolderThatCannotReachTheServerStopsTrustingBeforeAnybodyElseHasTheLock(t *testing.T) {
	inFakeTime(t, func(b *bubble) {
		a, network := b.client()
		c, _ := b.client()
		lease := b.lock(a)
		next := b.queue(c, 1)
		var lost, granted time.Time
		var both sync.WaitGroup
		both.Go(func() {
			<-lease.Done()
			lost = time.Now()
		})
		both.Go(func() {
			l := <-next
			granted = time.Now()
			b.unlock(l)
		})
		network.stop()
		both.Wait()
		if !errors.Is(lease.Err(), fairlock.ErrLost) {
			t.Errorf("it says %v", lease.Err())
		}
		if early := granted.Sub(lost); early < time.Second || early > 4*time.Second {
			t.Errorf("trust ended %v before the next one had the lock, want the margin of 3 s", early)
		}
	})
}

func TestAHolderWhoseLeaseWasNotRenewedHasItsMarginToStopThoughTheServerIsBackAtOnce(t *testing.T) {
	inFakeTime(t, func(b *bubble) {
		for name, back := range map[string]func(n *network){
			"requests arrive late": (*network).resume,
			"requests are lost":    func(n *network) { n.breaks(); n.resume() },
			"its Locker ends":      (*network).resume,
		} {
			a, network := b.client()
			c, _ := b.client()
			lease := b.lock(a)
			next := b.queue(c, 1)
			var ends sync.WaitGroup
			if name == "its Locker ends" {
				ends.Go(func() { _ = a.Shutdown(context.Background()) })
			}
			network.stop()
			<-lease.Done()
			lost := time.Now()
			back(network)
			l := <-next
			ends.Wait()
			if early := time.Since(lost); early < 3*time.Second || early > 4*time.Second {
				t.Errorf("%s: trust ended %v before the next one had the lock, want the margin of 3 s", name, early)
			}
			b.unlock(l)
		}
	})
}

func TestAStoppedWaiterCostsAClaimAndOneEnterOnceAndDoesNotBelieveItsOldGrant(t *testing.T) {
	inFakeTime(t, func(b *bubble) {
		a, _ := b.client()
		stopped, network := b.client()
		c, _ := b.client()
		holder := b.lock(a)
		first := b.queue(stopped, 1)
		second := b.queue(c, 2)
		network.stop()
		start := time.Now()
		b.unlock(holder)
		lease := <-second
		if waited := time.Since(start); waited > 8*time.Second {
			t.Errorf("the next one waited %v", waited)
		}
		network.resume()
		time.Sleep(4 * time.Second)
		if len(first) > 0 {
			t.Error("two have the lock")
		}
		b.unlock(lease)
		late := <-first
		if late.Token() <= lease.Token() || late.Err() != nil {
			t.Errorf("token %d after %d, %v", late.Token(), lease.Token(), late.Err())
		}
		b.unlock(late)
	})
}

func TestAWaiterKeepsItsPlaceForAsLongAsItTakes(t *testing.T) {
	inFakeTime(t, func(b *bubble) {
		a, _ := b.client()
		c, _ := b.client()
		d, _ := b.client()
		holder := b.lock(a)
		first, second := b.queue(c, 1), b.queue(d, 2)
		time.Sleep(time.Hour)
		if holder.Err() != nil || len(first)+len(second) > 0 {
			t.Fatalf("holder: %v", holder.Err())
		}
		if !b.mini.Exists("fairlock:token:{x}") {
			t.Error("the token key was not kept alive")
		}
		b.unlock(holder)
		lease := <-first
		b.unlock(lease)
		b.unlock(<-second)
	})
}

func TestWhenTheLastClientIsGoneEveryKeyVanishesByItself(t *testing.T) {
	inFakeTime(t, func(b *bubble) {
		a, networkA := b.client()
		c, networkC := b.client()
		b.lock(a)
		b.queue(c, 1)
		lost, networkD := b.client(fairlock.WithLease(time.Minute))
		b.queue(lost, 2)
		for _, n := range []*network{networkA, networkC, networkD} {
			n.stop() // no farewell: their machines lost power
		}
		time.Sleep(30 * time.Minute)
		if keys := b.mini.Keys(); !slices.Equal(keys, []string{lua.ProtocolKey("fairlock")}) {
			t.Errorf("the locks leave behind: %v", keys)
		}
		b.mini.FastForward(lua.ProtocolTTL) // nobody's network lives: nothing else would happen
		if keys := b.mini.Keys(); len(keys) > 0 {
			t.Errorf("stays behind: %v", keys)
		}
	})
}

func TestDataLossIsNoticedByWhoeverComesFirstAndTheHolderKeepsTheLock(t *testing.T) {
	inFakeTime(t, func(b *bubble) {
		a, _ := b.client()
		holder := b.lock(a)
		var line []<-chan *fairlock.Lease
		for i := range 5 {
			l, _ := b.client()
			line = append(line, b.queue(l, i+1))
		}
		time.Sleep(time.Second)
		b.mini.FlushAll()
		time.Sleep(5 * time.Minute)
		for _, next := range line {
			if len(next) > 0 {
				t.Fatal("somebody else has the lock")
			}
		}
		if holder.Err() != nil {
			t.Fatalf("the holder lost it: %v", holder.Err())
		}
		token := holder.Token()
		b.unlock(holder)
		for i, next := range line {
			lease := <-next
			if lease.Token() <= token {
				t.Fatalf("the %dth was served out of order", i+1)
			}
			token = lease.Token()
			b.unlock(lease)
		}
	})
}

func TestDataLossWithADeadHolderCostsItsLeaseAndKeepsTheOrder(t *testing.T) {
	inFakeTime(t, func(b *bubble) {
		a, network := b.client()
		b.lock(a)
		var line []<-chan *fairlock.Lease
		for i := range 5 {
			l, _ := b.client()
			line = append(line, b.queue(l, i+1))
		}
		network.stop()
		b.mini.FlushAll()
		start := time.Now()
		var token int64
		for i, next := range line {
			lease := <-next
			if i == 0 && time.Since(start) > 40*time.Second {
				t.Errorf("the first waited %v", time.Since(start))
			}
			if lease.Token() <= token {
				t.Fatalf("the %dth was served out of order", i+1)
			}
			token = lease.Token()
			b.unlock(lease)
		}
	})
}
