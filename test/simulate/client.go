package simulate

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/reentrant"
	"github.com/fairlock/locks/test/simulate/stage"
)

// client is a process with one Locker.
type client struct {
	w       *World
	id      uint64
	name    string
	uuid    string
	lease   time.Duration
	endless bool // its requests have no timeouts
	link    *link
	rdb     *redis.Client
	locker  fairlock.Interface
	actors  sync.WaitGroup
	gone    chan struct{} // closed when the process has ended

	leaving chan struct{} // closed when the Locker begins to close

	// Guarded by World.mu.
	calls        map[*call]struct{} // calls under way
	paused       chan struct{}      // closed when the process goes on; nil while it runs
	stands       []stands           // when the process stood still
	crashed      bool
	closing      bool
	closed       time.Time        // when a Close had returned
	closeAtGrant bool             // close the client when it hears of its next grant
	busy         bool             // with a fault that lasts
	noted        map[string]*call // see called

	cutShort sync.Map      // tickets whose leave a hook has cut short
	asked    atomic.Uint64 // how often the errors of its hook were asked something

	latest atomic.Pointer[fairlock.Lease] // the latest lease that the client had
}

// mostPatient is how long a client waits for an answer at most.
const mostPatient = lua.MostKept

// patience is how long this client does: one without timeouts for as long as the library lets a
// request keep its call, the others for a second less at least.
func (c *client) patience() time.Duration {
	if c.endless {
		return mostPatient
	}
	return mostPatient - time.Second
}

// newClient starts a client with its actors. World.mu must not be held.
func (w *World) newClient() *client {
	w.mu.Lock()
	w.made++
	id := w.made
	c := &client{
		w: w, id: id, name: fmt.Sprintf("c%d", id), gone: make(chan struct{}), leaving: make(chan struct{}),
		calls: make(map[*call]struct{}), noted: make(map[string]*call),
	}
	c.link = &link{w: w, owner: c, troubled: w.start}
	r := w.draw(id, 4)
	leases := []time.Duration{5 * time.Second, 8 * time.Second, 12 * time.Second, 30 * time.Second}
	if w.long() {
		leases = []time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second, 30 * time.Second, 10 * time.Minute, 2 * time.Hour}
	}
	c.lease = leases[r.IntN(len(leases))]
	obeys, patient := r.IntN(2) == 0, time.Duration(1+r.IntN(4))*time.Second
	pool := 16
	if c.endless = w.plan.brings(Endless) && (r.IntN(5) == 0 || w.plan.Break.Endless); c.endless {
		patient = []time.Duration{-1, -2}[r.IntN(2)] // without timeouts, and without deadlines at all
		pool = 64                                    // dead connections stay in it for minutes
		w.fault("client without timeouts", "%s", c.name)
	}
	w.clients = append(w.clients, c)
	w.mu.Unlock()

	c.rdb = redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:0", Dialer: c.link.dial, PoolSize: pool, DialerRetries: 1, DialTimeout: 2 * time.Second,
		ReadTimeout: patient, WriteTimeout: patient, ContextTimeoutEnabled: obeys,
		// No random backoff for handshakes: chance would decide their times.
		MinRetryBackoff: -1, MaxRetryBackoff: -1,
		DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	c.rdb.AddHook(stage.Pacer(c.paced))
	if c.endless && w.plan.Break.Endless { // the library asks for the timeouts once
		c.rdb.Options().ReadTimeout, c.rdb.Options().WriteTimeout = mostPatient, mostPatient
		defer func() { c.rdb.Options().ReadTimeout, c.rdb.Options().WriteTimeout = patient, patient }()
	}
	options := []fairlock.Option{
		fairlock.WithLease(c.lease), fairlock.WithLogger(slog.New(stage.Teller(c.told))), fairlock.WithObserver(stage.Teller(c.told)),
		engine.WithAlarm(func() { c.runs(0) }),
	}
	c.uuid = stage.Named(w.plan.Seed, id, func() {
		if w.plan.Plain {
			c.locker = reentrant.New(c.rdb, options...)
		} else {
			c.locker = fairlock.New(c.rdb, options...)
		}
	}) + lua.KnowsRuns
	w.mu.Lock()
	w.aliases = append(w.aliases, c.uuid, c.name)
	w.history.Alias(w.aliases)
	w.mu.Unlock()
	for i := range w.plan.Actors {
		a := &actor{w: w, c: c, id: i + 1, rand: rand.New(rand.NewPCG(w.plan.Seed, id<<16|i<<8|5))}
		c.actors.Go(a.run)
	}
	return c
}

// byID returns the client with the given uuid.
func (w *World) byID(id string) *client {
	for _, c := range w.clients {
		if c.uuid == id {
			return c
		}
	}
	return nil
}

// channel returns the channel on which the client of a ticket hears of its grants.
func (w *World) channel(ticket string) string {
	return w.plan.prefix() + ":wake:" + stage.ClientOf(ticket)
}

// pause stops the client's code, its timers and its network, as SIGSTOP would.
func (c *client) pause() (resume func()) {
	release := c.link.hold(true, true)
	c.paused = make(chan struct{})
	c.stands = append(c.stands, stands{from: time.Now(), to: time.Now().Add(time.Hour)})
	frozen := c.link.conns
	for _, conn := range frozen {
		conn.Freeze(true)
	}
	frozen = append([]*conn(nil), frozen...)
	return func() {
		release()
		r := c.w.draw(c.id, 8)
		at := time.Duration(0)
		for _, conn := range frozen {
			at += stage.Span(r, 1, 500*time.Microsecond)
			c.w.after(at, func() { conn.Freeze(false) })
		}
		paused := c.paused
		c.paused = nil
		c.stands[len(c.stands)-1].to = time.Now().Add(at + stage.AtOnce)
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
// lost power too: then the server notices only by keep-alive. World.mu must be held.
func (c *client) crash(power bool) {
	c.crashed = true
	c.link.trouble()
	for _, b := range c.w.referee.beliefs {
		if b.by == c {
			if b.left.IsZero() {
				b.left = time.Now()
			}
			c.w.referee.endsNow(b)
		}
	}
	d := c.w.plan.Latency
	if power {
		c.link.silent, d = true, 90*time.Second
	}
	c.link.dead = true
	for _, conn := range c.link.conns {
		conn.mute = true
		c.w.after(d, func() { c.w.server.HangUp(conn) })
		if !power || c.endless { // nobody is left to wait for the answers, but the Close that buries it
			conn.fail(stage.ErrReset)
		}
	}
	close(c.gone)
}
