package redistest

import (
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Server is one redis-server process that belongs to one test.
//
// Its methods may be called from any goroutine, except those that fail the test with Fatal (Pause,
// Resume, Kill, Restart). These belong to the test's own goroutine.
type Server struct {
	tb   testing.TB
	bin  string
	port int
	conf []string // what comes before all options: a file, for a sentinel
	args []string // complete command line, used again by Restart
	auth string   // the value of --requirepass among the args, if any

	mu   sync.Mutex
	proc *process // guarded by mu; replaced by Restart
}

// Start runs a redis-server without persistence on a free port of 127.0.0.1, waits until it
// answers, and kills it when the test ends. Extra args come last on the command line and so win
// over the defaults; they must not change the port or the address. [Server.Client] also uses a
// password given by "--requirepass", "x".
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s := &Server{tb: tb, bin: findBinary(tb), auth: valueOf("--requirepass", args)}
	defaults := []string{
		"--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", tb.TempDir(),
	}
	s.startOnFreePort(slices.Concat(defaults, args))
	tb.Cleanup(s.Kill)
	return s
}

// findBinary returns the path of redis-server, or ends the test: a skip by
// default, a failure where the environment promises that a server is there.
func findBinary(tb testing.TB) string {
	tb.Helper()
	name := os.Getenv("REDIS_SERVER")
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("FAIRLOCK_REQUIRE_REDIS") == "1" {
		tb.Fatalf("FAIRLOCK_REQUIRE_REDIS=1, but there is no redis-server to test against: %v", err)
	}
	tb.Skipf("NOT SHOWN: without a redis-server this test says nothing about how the library behaves "+
		"on a real Redis. Put redis-server into PATH or name it in REDIS_SERVER: %v", err)
	return ""
}

// valueOf returns the last value that args give to an option. redis-server takes the last one too.
func valueOf(option string, args []string) string {
	value := ""
	for i := range len(args) - 1 {
		if args[i] == option {
			value = args[i+1]
		}
	}
	return value
}

// Addr returns the server's host:port. It stays the same over a Restart.
func (s *Server) Addr() string { return local(s.port) }

// Port returns the server's TCP port. It stays the same over a Restart.
func (s *Server) Port() int { return s.port }

// PID returns the id of the server's process, or that of the last one if the
// server has been killed.
func (s *Server) PID() int { return s.process().cmd.Process.Pid }

// Client returns a new client of the server with go-redis's own defaults,
// changed by mutate, and closes it when the test ends.
func (s *Server) Client(tb testing.TB, mutate ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	opts := &redis.Options{Addr: s.Addr(), Password: s.auth}
	for _, change := range mutate {
		change(opts)
	}
	c := redis.NewClient(opts)
	tb.Cleanup(func() { _ = c.Close() }) // the test may have closed it already
	return c
}

func (s *Server) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

func (s *Server) setProcess(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc = p
}
