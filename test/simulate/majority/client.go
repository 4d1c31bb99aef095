package majority

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/quorum"
	"github.com/fairlock/locks/test/simulate/stage"
)

// client is a process with one Locker.
type client struct {
	w       *World
	id      uint64
	name    string
	uuid    string
	lease   time.Duration
	endless bool    // its requests have no timeouts
	links   []*link // one for each node
	rdbs    []*redis.Client
	locker  *quorum.Locker
	actors  sync.WaitGroup
	gone    chan struct{} // closed when the process has ended

	leaving chan struct{} // closed when the Locker begins to close

	latest atomic.Pointer[quorum.Lease] // the latest that the client had

	// Guarded by World.mu.
	calls      map[*call]struct{} // calls under way
	noted      map[string]*call   // by the note of their tickets and the lock
	paused     chan struct{}      // closed when the process goes on; nil while it runs
	stood      time.Time          // when the process last went on after a pause
	distracted time.Time          // when a hook last began or ended to take its time
	crashed    bool
	power      bool // and its machine lost its power: nobody told the nodes
	closing    bool
	closed     time.Time // when a Close had returned
	busy       bool      // with a fault that lasts
}

// join starts a client with its actors. World.mu must not be held.
func (w *World) join(actors uint64) *client {
	w.mu.Lock()
	id := uint64(len(w.clients) + 1)
	c := &client{
		w: w, id: id, name: fmt.Sprintf("c%d", id), gone: make(chan struct{}), leaving: make(chan struct{}),
		calls: make(map[*call]struct{}), noted: make(map[string]*call),
	}
	for _, n := range w.nodes {
		l := &link{w: w, c: c, n: n, troubled: time.Now()}
		l.leads = l
		c.links = append(c.links, l)
	}
	r := w.draw(id, 4)
	c.lease = []time.Duration{3 * time.Second, 8 * time.Second, 12 * time.Second, w.plan.Longest}[r.IntN(4)]
	obeys, patient, retries := r.IntN(2) == 0, time.Duration(1+r.IntN(3))*time.Second, []int{-1, 3}[r.IntN(2)]
	pool := 16
	if c.endless = !w.plan.Calm && r.IntN(5) == 0; c.endless {
		patient = []time.Duration{-1, -2}[r.IntN(2)] // without timeouts, and without deadlines at all
		pool = 64                                    // dead connections stay in it for minutes
		w.fault("client without timeouts", "%s", c.name)
	}
	w.clients = append(w.clients, c)
	w.mu.Unlock()

	var nodes []redis.UniversalClient
	for i, l := range c.links {
		rdb := redis.NewClient(&redis.Options{
			Addr: fmt.Sprintf("127.0.0.%d:6379", i+1), Dialer: l.dial, PoolSize: pool, DialerRetries: 1, DialTimeout: 2 * time.Second,
			ReadTimeout: patient, WriteTimeout: patient, ContextTimeoutEnabled: obeys, MaxRetries: retries,
			// No random backoff for handshakes: chance would decide their times.
			MinRetryBackoff: -1, MaxRetryBackoff: -1,
			DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		rdb.AddHook(stage.Pacer(l.paced))
		c.rdbs, nodes = append(c.rdbs, rdb), append(nodes, rdb)
	}
	c.uuid = stage.Named(w.plan.Seed, id, func() {
		c.locker = quorum.New(nodes, quorum.WithLease(c.lease), quorum.WithLongestLease(w.plan.Longest), quorum.WithSet(w.set()),
			quorum.WithLogger(slog.New(stage.Teller(c.told))), quorum.WithObserver(stage.Teller(c.told)),
			quorum.WithEngine(engine.WithAlarm(func() { c.runs(0) })))
	}) + lua.KnowsRuns
	w.mu.Lock()
	defer w.mu.Unlock()
	w.aliases = append(w.aliases, c.uuid, c.name)
	w.history.Alias(w.aliases)
	w.present = append(w.present, c)
	for i := range actors {
		a := &actor{w: w, c: c, id: i + 1, rand: rand.New(rand.NewPCG(w.plan.Seed, id<<16|i<<8|5))}
		c.actors.Go(a.run)
	}
	return c
}

// reaches returns since when at least so many nodes can be reached undisturbed; false: they cannot.
func (c *client) reaches(count int, good func(*link) bool) (since time.Time, ok bool) {
	var all []time.Time
	for _, l := range c.links {
		if at, able := l.able(); able && (good == nil || good(l)) {
			all = append(all, at)
		}
	}
	if len(all) < count || c.crashed || c.paused != nil {
		return since, false
	}
	sortTimes(all)
	return stage.Later(all[count-1], c.stood), true
}

// pause stops the client's code, its timers and its network, as SIGSTOP would.
func (c *client) pause() (resume func()) {
	var releases []func()
	var frozen []*conn
	for _, l := range c.links {
		releases, frozen = append(releases, l.hold(true, true)), append(frozen, l.conns...)
	}
	c.paused = make(chan struct{})
	for _, conn := range frozen {
		conn.Freeze(true)
	}
	return func() {
		r := c.w.draw(c.id, 8)
		at := time.Duration(0)
		for _, release := range releases {
			release()
		}
		for _, conn := range frozen {
			at += stage.Span(r, 1, 500*time.Microsecond)
			c.w.after(at, func() { conn.Freeze(false) })
		}
		paused := c.paused
		c.paused = nil
		c.stood = time.Now().Add(at + stage.AtOnce)
		c.w.after(stage.Span(r, 1, at+time.Millisecond), func() { close(paused) })
	}
}

// runs blocks until the client's code may go on. It returns false if the client never goes on.
func (c *client) runs(id uint64) bool {
	since := uint64(time.Since(c.w.start)) //nolint:gosec // it is not negative
	for {
		c.w.mu.Lock()
		paused, crashed := c.paused, c.crashed
		c.w.mu.Unlock()
		if crashed {
			return false
		}
		if paused == nil {
			return true
		}
		select {
		case <-paused:
			time.Sleep(stage.Span(c.w.draw(c.id, id, since, 9), 1, 50*time.Microsecond))
		case <-c.gone:
		}
	}
}

// crash ends the client's process. The kernel closes the process's connections, unless the machine
// lost power too: then the nodes notice only by keep-alive. World.mu must be held.
func (c *client) crash(power bool) {
	c.crashed, c.power = true, power
	for _, b := range c.w.referee.beliefs {
		if b.by == c {
			c.w.referee.endsNow(b)
		}
	}
	d := c.w.plan.Latency
	if power {
		d = 90 * time.Second
	}
	for _, l := range c.links {
		l.trouble()
		for _, conn := range l.conns {
			conn.mute = true
			c.w.after(d, func() { l.n.HangUp(conn) })
			if !power || c.endless { // nobody is left to wait for the answers, but the Close that buries it
				conn.fail(stage.ErrReset)
			}
		}
	}
	close(c.gone)
}
