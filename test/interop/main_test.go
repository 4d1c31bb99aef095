// Package interop has package redisson and the real Redisson in one line, on real servers. Its tests
// are the rows of docs/redisson.md.
package interop

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/redisson"
	"github.com/fairlock/locks/test/java"
	"github.com/fairlock/locks/test/poll"
	"github.com/fairlock/locks/test/redistest"
)

// child in the environment makes the test binary a process with one lock: server, kind, name.
const child = "FAIRLOCK_INTEROP_CHILD"

func TestMain(m *testing.M) {
	if job := os.Getenv(child); job != "" {
		serve(strings.SplitN(job, " ", 3))
		return
	}
	goleak.VerifyTestMain(m)
}

// brief are the times of clients that are killed: leases, and places in line.
const (
	brief    = 3 * time.Second // Java's lockWatchdogTimeout
	javaWait = 2 * time.Second // Java's fairLockWaitTimeout
)

// serve takes the lock, says so, and stays until it is killed.
func serve(job []string) {
	rdb := redis.NewClient(&redis.Options{Addr: job[0]})
	options := []redisson.Option{redisson.WithWatchdogTimeout(brief), redisson.WithFairLockWaitTimeout(javaWait)}
	l := redisson.New(rdb, options...)
	if java.Kind(job[1]) == java.Plain {
		l = redisson.NewPlain(rdb, options...)
	}
	waits := redisson.OnQueued(func(int) { fmt.Println("waits") })
	lease, err := l.Lock(context.Background(), job[2], waits)
	fmt.Println("has", lease.Owner(), err)
	<-context.Background().Done()
}

// process is another Go process with a lock.
type process struct {
	cmd  *exec.Cmd
	said *bufio.Scanner
}

func (w *world) process(kind java.Kind, name string) *process {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), child+"="+w.addr+" "+string(kind)+" "+name)
	out, err := cmd.StdoutPipe()
	w.must(err)
	w.must(cmd.Start())
	p := &process{cmd, bufio.NewScanner(out)}
	w.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// says returns when the process says that word.
func (w *world) says(p *process, word string) {
	w.Helper()
	for p.said.Scan() {
		if strings.HasPrefix(p.said.Text(), word) {
			return
		}
	}
	w.Fatalf("the process ended without a word: %v", p.said.Err())
}

const patience = time.Minute

// world is a real server, with JVMs and Lockers on it.
type world struct {
	*testing.T
	server *redistest.Server
	addr   string
	direct *redis.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	java.Require(t)
	server := redistest.Start(t)
	w := &world{T: t, server: server, addr: server.Addr(), direct: redis.NewClient(&redis.Options{Addr: server.Addr()})}
	t.Cleanup(func() { _ = w.direct.Close() })
	return w
}

// in is the same world for a subtest.
func (w *world) in(t *testing.T) *world { return &world{t, w.server, w.addr, w.direct} }

func (w *world) jvm(config java.Config) *java.JVM {
	w.Helper()
	if config.Addrs == nil {
		config.Addrs = []string{w.addr}
	}
	return java.Start(w.T, config)
}

// locker is one for locks of that kind.
func (w *world) locker(kind java.Kind, options ...redisson.Option) *redisson.Locker {
	w.Helper()
	return w.over(redis.NewClient(&redis.Options{Addr: w.addr}), kind, options...)
}

func (w *world) over(rdb redis.UniversalClient, kind java.Kind, options ...redisson.Option) *redisson.Locker {
	w.Helper()
	newLocker := redisson.New
	if kind == java.Plain {
		newLocker = redisson.NewPlain
	}
	l := newLocker(rdb, options...)
	w.Cleanup(func() {
		_ = l.Close()
		_ = rdb.Close()
	})
	return l
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// returned waits for a call in Java.
func (w *world) returned(call *java.Call) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if err := call.Err(ctx); err != nil {
		w.Fatalf("%v\n%s", err, redistest.Dump(w.direct))
	}
}

// says of a call in Java.
func (w *world) answers(call *java.Call, want string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if text, err := call.Text(ctx); err != nil || text != want {
		w.Fatalf("%q, %v; want %q\n%s", text, err, want, redistest.Dump(w.direct))
	}
}

// waits fails if the call in Java has returned.
func (w *world) waits(call *java.Call) {
	w.Helper()
	select {
	case <-call.Done():
		w.Fatalf("it did not wait: %v", call.Err(w.Context()))
	default:
	}
}

// outcome is what came of a call in Go.
type outcome struct {
	lease *redisson.Lease
	err   error
}

func (w *world) asks(ctx context.Context, l *redisson.Locker, name string, options ...redisson.LockOption) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		lease, err := l.Lock(ctx, name, options...)
		done <- outcome{lease, err}
	}()
	return done
}

func (w *world) has(l *redisson.Locker, name string, options ...redisson.LockOption) *redisson.Lease {
	w.Helper()
	return w.gets(w.asks(w.Context(), l, name, options...))
}

func (w *world) gets(call <-chan outcome) *redisson.Lease {
	w.Helper()
	select {
	case o := <-call:
		w.must(o.err)
		return o.lease
	case <-time.After(patience):
		w.Fatalf("a call does not end:\n%s", redistest.Dump(w.direct))
		return nil
	}
}

func (w *world) unlock(lease *redisson.Lease) {
	w.Helper()
	w.must(lease.Unlock(w.Context()))
}

func (w *world) until(what string, holds func() bool) {
	w.Helper()
	if !poll.Until(patience, holds) {
		w.Fatalf("waited in vain for: %s\n%s", what, redistest.Dump(w.direct))
	}
}

// line waits until so many stand in line, Go's and Java's.
func (w *world) line(name string, n int64) {
	w.Helper()
	key := "redisson_lock_queue:{" + name + "}"
	if strings.Contains(name, "{") {
		key = "redisson_lock_queue:" + name
	}
	w.until(fmt.Sprintf("%d in line", n), func() bool { return w.direct.LLen(w.Context(), key).Val() == n })
}

// subscribed waits until somebody listens to the releases of a plain lock.
func (w *world) subscribed(name string, n int) {
	w.Helper()
	w.until("a subscription", func() bool {
		return len(w.direct.PubSubChannels(w.Context(), "redisson_lock__channel:*").Val()) >= n
	})
}

// nothing fails if anything stays on the server but the marks of Redisson's unlocks.
func (w *world) nothing() {
	w.Helper()
	w.until("nothing is left", func() bool {
		for _, key := range w.direct.Keys(w.Context(), "*").Val() {
			if !strings.HasPrefix(key, "redisson_unlock_latch:") && !strings.HasPrefix(key, "fairlock_left:") {
				return false
			}
		}
		return true
	})
}
