package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// MasterName is what the sentinels of [StartSentinels] call their master.
const MasterName = "locks"

// failoverTimeout bounds a wait for the sentinels, which may need a second attempt.
const failoverTimeout = 60 * time.Second

// Sentinels are three sentinels that watch a master with two replicas.
//
// Its methods belong to the test's own goroutine.
type Sentinels struct {
	tb       testing.TB
	master   *Server
	replicas []*Server
	watchers []*Server
}

// StartSentinels starts all servers. It returns when every sentinel knows all others and both
// replicas, and the replicas have the master's data. No sentinel takes a master for dead that
// stands still, as one does on a busy machine: there is no failover but those that a test asks for.
func StartSentinels(tb testing.TB) *Sentinels {
	tb.Helper()
	s := &Sentinels{tb: tb}
	s.master = Start(tb, replicating...)
	for range 2 {
		s.replicas = append(s.replicas, Start(tb, slices.Concat(replicating, replicaOf(s.master))...))
	}
	for range 3 {
		s.watchers = append(s.watchers, s.watcher())
	}
	s.settled()
	return s
}

// endless is for how long, in milliseconds, a master may stand still before a sentinel takes it for
// dead; brief is that for each of the sentinels while a failover is wanted. If all three were as
// quick, each might vote for itself.
const endless = 3_600_000

var brief = []int{1000, 1000, 5000}

// replicating has a full copy begin at once. And no copy fails for want of a heartbeat while a test
// pauses a server.
var replicating = []string{"--repl-diskless-sync-delay", "0", "--repl-timeout", "3600"}

func replicaOf(master *Server) []string {
	return []string{"--replicaof", "127.0.0.1 " + strconv.Itoa(master.Port())}
}

// watcher starts one sentinel. A sentinel keeps what it knows in its configuration file, so each
// needs a file of its own.
func (s *Sentinels) watcher() *Server {
	s.tb.Helper()
	dir := s.tb.TempDir()
	file := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\n"+
		"sentinel down-after-milliseconds %[1]s %[3]d\nsentinel failover-timeout %[1]s 1500\n", MasterName, s.master.Port(), endless)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.tb.Fatal(err)
	}
	w := &Server{tb: s.tb, bin: s.master.bin, conf: []string{file, "--sentinel"}}
	w.startOnFreePort([]string{"--bind", "127.0.0.1", "--dir", dir})
	s.tb.Cleanup(w.Kill)
	s.hurried(w)
	return w
}

// hurried has a sentinel look and talk more often than once in a second or two. With the usual ping
// period a sentinel would take a new master for dead before it had first asked. The period must not
// be below 200 ms either. A sentinel promotes a replica only if its INFO is younger than five
// periods, and it asks for INFO once a second. The high tilt-trigger keeps a sentinel from
// distrusting its clock for half a minute because the machine is busy.
func (s *Sentinels) hurried(w *Server) {
	s.tb.Helper()
	s.debug(w, "ping-period", 300, "info-period", 500, "publish-period", quick, "ask-period", 200, "tilt-trigger", 60_000)
}

// debug changes what a sentinel has no other settings for.
func (s *Sentinels) debug(w *Server, settings ...any) {
	s.tb.Helper()
	c := w.Client(s.tb, func(o *redis.Options) { o.DisableIdentity = true })
	defer c.Close()
	if err := c.Do(context.Background(), append([]any{"sentinel", "debug"}, settings...)...).Err(); err != nil {
		s.tb.Fatalf("set %v of a sentinel: %v", settings, err)
	}
}

// Addrs returns the addresses of the sentinels.
func (s *Sentinels) Addrs() []string {
	var addrs []string
	for _, w := range s.watchers {
		addrs = append(addrs, w.Addr())
	}
	return addrs
}

// Master returns the server that was the master at the last look.
func (s *Sentinels) Master() *Server { return s.master }

// Replicas returns the other servers, dead or alive.
func (s *Sentinels) Replicas() []*Server { return slices.Clone(s.replicas) }

// Client returns a new client that asks the sentinels for the master, with go-redis's own defaults,
// changed by mutate, and closes it when the test ends.
func (s *Sentinels) Client(tb testing.TB, mutate ...func(*redis.FailoverOptions)) *redis.Client {
	tb.Helper()
	opts := &redis.FailoverOptions{MasterName: MasterName, SentinelAddrs: s.Addrs()}
	for _, change := range mutate {
		change(opts)
	}
	c := redis.NewFailoverClient(opts)
	tb.Cleanup(func() { _ = c.Close() }) // the test may have closed it already
	return c
}

// KillMaster ends the master without a farewell (SIGKILL). It returns when every sentinel names
// another server, which is the master from then on. It tells when the master died and when all named
// the next: what it asks of the sentinels before and after takes a busy one seconds. The dead server
// becomes the last of the replicas; see [Sentinels.Revive].
func (s *Sentinels) KillMaster() (died, replaced time.Time) {
	s.tb.Helper()
	for i, w := range s.watchers {
		s.patience(w, brief[i])
	}
	died = time.Now()
	s.master.Kill()
	s.promoted()
	replaced = time.Now()
	for _, w := range s.watchers {
		s.patience(w, endless)
	}
	return died, replaced
}

// patience sets for how many milliseconds a server may stand still before a sentinel takes it for
// dead.
func (s *Sentinels) patience(w *Server, ms int) {
	s.tb.Helper()
	c := redis.NewSentinelClient(&redis.Options{Addr: w.Addr()})
	defer c.Close()
	if err := c.Set(context.Background(), MasterName, "down-after-milliseconds", strconv.Itoa(ms)).Err(); err != nil {
		s.tb.Fatalf("set how patient a sentinel is: %v", err)
	}
}

// quick and calm are the milliseconds from one greeting of a sentinel to the next. A sentinel that
// sees a replica become a master makes it a replica again, unless it hears of the switch within
// four of its greeting periods. On a busy machine four quick ones are too few. Then all sentinels
// would name a replica, and leave it so for as long as the master of before is alive.
const quick, calm = 200, 2000

// greeting sets how often the live sentinels greet one another.
func (s *Sentinels) greeting(ms int) {
	s.tb.Helper()
	for _, w := range s.watchers {
		if !w.process().ended() {
			s.debug(w, "publish-period", ms)
		}
	}
}

// SwitchMaster has the sentinels promote a replica while the old master is alive, and returns when
// every sentinel names the new one. The old master goes on as a master of its own, and its writes
// will be lost. About a second later a sentinel makes it a replica.
func (s *Sentinels) SwitchMaster() {
	s.tb.Helper()
	s.greeting(calm)
	defer s.greeting(quick)
	s.eventually("a failover begins", func() bool {
		return s.ask(s.watchers[0], func(c *redis.SentinelClient) bool { return c.Failover(context.Background(), MasterName).Err() == nil })
	})
	s.promoted()
	if !isMaster(s.tb, s.master) {
		s.tb.Fatal("the sentinels have made the new master a replica again")
	}
}

// isMaster reports whether a server says that it is a master.
func isMaster(tb testing.TB, r *Server) bool {
	c := r.Client(tb)
	defer c.Close()
	role, _ := c.Do(context.Background(), "role").Slice() // without an answer it is none
	return len(role) > 0 && role[0] == "master"
}

// promoted returns when every sentinel names another master than before.
func (s *Sentinels) promoted() {
	s.tb.Helper()
	old := s.master
	s.eventually("every sentinel names the same new master", func() bool { return s.agreed() && s.master != old })
}

// agreed reports whether all sentinels name the same server. That server is then the master.
func (s *Sentinels) agreed() bool {
	all := append([]*Server{s.master}, s.replicas...)
	at := slices.IndexFunc(all, func(r *Server) bool {
		return !slices.ContainsFunc(s.watchers, func(w *Server) bool { return s.named(w) != r.Addr() })
	})
	if at > 0 {
		s.master = all[at]
		s.replicas = append(slices.Delete(all[1:], at-1, at), all[0])
	}
	return at >= 0
}

// Revive starts the dead servers as replicas of the present master. It returns when all is as it
// was in the beginning.
func (s *Sentinels) Revive() {
	s.tb.Helper()
	for _, r := range s.replicas {
		if r.process().ended() {
			r.args = append(slices.Clone(r.args), replicaOf(s.master)...) // the last option wins
			r.Restart()
		}
	}
	s.settled()
}

// settled returns when every sentinel sees a master, two live replicas and two other sentinels, and
// both replicas have the master's data.
func (s *Sentinels) settled() {
	s.tb.Helper()
	s.eventually("every sentinel knows them all, and both replicas have the master's data", func() bool {
		return s.agreed() && !slices.ContainsFunc(s.watchers, func(w *Server) bool { return !s.knowsAll(w) }) && s.inStep()
	})
}

func (s *Sentinels) knowsAll(w *Server) bool {
	return s.ask(w, func(c *redis.SentinelClient) bool {
		master, err := c.Master(context.Background(), MasterName).Result()
		replicas, _ := c.Replicas(context.Background(), MasterName).Result()
		up := func(r map[string]string) bool { return r["flags"] == "slave" && r["master-link-status"] == "ok" }
		return err == nil && master["flags"] == "master" && master["num-other-sentinels"] == "2" &&
			len(replicas) == 2 && up(replicas[0]) && up(replicas[1])
	})
}

// inStep reports whether both replicas have a new write to the master. The write comes first
// because WAIT only covers what its own connection wrote.
func (s *Sentinels) inStep() bool {
	c := redis.NewClient(&redis.Options{Addr: s.master.Addr()})
	defer c.Close()
	both := c.Pipeline()
	both.Set(context.Background(), "sentinels:settled", "1", time.Millisecond)
	wait := both.Do(context.Background(), "wait", 2, 1000)
	_, err := both.Exec(context.Background())
	return err == nil && wait.Val() == int64(2)
}

// named returns the address of the master as a sentinel knows it.
func (s *Sentinels) named(w *Server) (addr string) {
	s.ask(w, func(c *redis.SentinelClient) bool {
		parts, err := c.GetMasterAddrByName(context.Background(), MasterName).Result()
		if err == nil {
			addr = net.JoinHostPort(parts[0], parts[1])
		}
		return err == nil
	})
	return addr
}

// ask asks one sentinel a question.
func (s *Sentinels) ask(w *Server, question func(*redis.SentinelClient) bool) bool {
	c := redis.NewSentinelClient(&redis.Options{Addr: w.Addr()})
	defer c.Close()
	return question(c)
}

func (s *Sentinels) eventually(what string, ok func() bool) {
	s.tb.Helper()
	for deadline := time.Now().Add(failoverTimeout); !ok(); time.Sleep(10 * pollInterval) {
		if time.Now().After(deadline) {
			s.tb.Fatalf("waited %v in vain until %s", failoverTimeout, what)
		}
	}
}
