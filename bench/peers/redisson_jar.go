package peers

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/locks/test/java"
)

// The jar peers are the real thing: each Locker has a JVM, and drives it by lines of text. All that
// is measured happens inside the JVM, so the way there costs the jar nothing.
var (
	redissonJar = jar(Peer{
		Name: "Redisson 4.7", Only: []string{"handover", "gap", "crash", "leases", "waiters"},
		Most: map[string]Limit{
			"handover": {4 * subscriptions, fewSubscriptions},
			"waiters":  {1_000, fewSubscriptions},
			"leases":   {1_000, "each lock is held by a thread of its own"},
		},
		About: "the real Redisson 4.7.0, getFairLock, defaults but for lockWatchdogTimeout, where Java and Maven are: " +
			"each process has a JVM, which has locked and unlocked 40,000 times by itself before it is measured, in eight " +
			"threads, and half of that on one key; all times are taken inside the JVM; client CPU has the JVM's; " +
			"goroutines are threads, and bytes are not told (its heap got smaller meanwhile); its order is judged by the " +
			"queue in the server, which is read every millisecond; one repeat",
	}, 0)
	redissonJarHurried = jar(Peer{
		Name: "Redisson 4.7 3 s", Only: []string{"crash"},
		About: "the same with fairLockWaitTimeout 3 s, which is 5 minutes by default",
	}, 3*time.Second)
)

func jar(p Peer, fairLockWait time.Duration) Peer {
	p.Server, p.Missing, p.Slow, p.Version = Redis, noJava, true, jarVersion
	// set stands for the DEL of an unlock's latch: the unlock's script calls SET once for each latch,
	// and the server's statistics do not tell the client's DEL from the script's own.
	p.Requests = append([]string{"set"}, scripted...)
	p.Open = func(c Config) (Locker, error) { return openJar(c, fairLockWait) }
	return p
}

func noJava() error {
	_, err := java.Find()
	return err
}

// jarVersion returns the versions of the jar and of Java.
func jarVersion() string {
	const redisson = "Redisson " + java.V4
	tools, err := java.Find()
	if err != nil {
		return redisson
	}
	text, err := exec.Command(tools.Java, "-version").CombinedOutput()
	words := strings.Split(string(text), `"`)
	if err != nil || len(words) < 2 {
		return redisson
	}
	return redisson + ", Java " + words[1]
}

//go:embed redisson/Jar.java
var jarSource embed.FS

// jarLocker is a JVM that locks.
type jarLocker struct{ jvm *jvm }

// openJar starts a JVM and returns when it is warm.
func openJar(c Config, fairLockWait time.Duration) (Locker, error) {
	source, err := fs.Sub(jarSource, "redisson")
	if err != nil {
		return nil, err
	}
	classes, err := java.Compile(java.V4, source)
	if err != nil {
		return nil, err
	}
	direct := c.Direct
	if direct == "" {
		direct = c.Addr
	}
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	// As a service would run it: Java's own choice of collector, compiler and heap.
	machine, err := startJVM("-cp", classes, "Jar", c.Addr, direct, ms(c.Lease), ms(fairLockWait), strconv.Itoa(c.Warm))
	if err != nil {
		return nil, err
	}
	return jarLocker{machine}, nil
}

// Lock has a new thread of the JVM lock. A call that is given up unlocks when it has the lock:
// RLock.lock cannot be called off.
func (l jarLocker) Lock(ctx context.Context, name string, _ func()) (Lock, error) {
	call := l.jvm.call("lock", name)
	granted := make(chan error, 1)
	held := &jarLock{call: call}
	go func() {
		times, err := call.numbers(1)
		if err == nil {
			held.granted = time.Unix(0, times[0])
		}
		granted <- err
	}()
	select {
	case err := <-granted:
		if err != nil {
			return nil, err
		}
		return held, nil
	case <-ctx.Done():
		go func() {
			if <-granted == nil {
				_ = held.Unlock(context.WithoutCancel(ctx)) // nobody is there who could be told
			}
		}()
		return nil, ctx.Err()
	}
}

// jarLock is held by a thread of the JVM.
type jarLock struct {
	call              *jvmCall
	granted, released time.Time
}

// Unlock has that thread unlock.
func (h *jarLock) Unlock(context.Context) error {
	h.call.jvm.tell("unlock", h.call.id)
	times, err := h.call.last(1)
	if err == nil {
		h.released = time.Unix(0, times[0])
	}
	return err
}

// Granted returns when RLock.lock had returned.
func (h *jarLock) Granted() time.Time { return h.granted }

// Released returns when RLock.unlock was called.
func (h *jarLock) Released() time.Time { return h.released }

// Contend runs the contest in the JVM.
func (l jarLocker) Contend(c Contest) ([]Turn, error) {
	unix := func(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
	call := l.jvm.call("contend", c.Name, strconv.Itoa(c.First), strconv.Itoa(c.Callers),
		strconv.FormatInt(int64(c.Hold), 10), unix(c.Start), unix(c.End), unix(c.Until))
	all, err := call.last(0)
	if err != nil {
		return nil, err
	}
	if len(all)%5 != 0 {
		return nil, fmt.Errorf("the JVM answered with %d numbers, which are no attempts", len(all))
	}
	var turns []Turn
	for ; len(all) > 0; all = all[5:] {
		turns = append(turns, Turn{Caller: int(all[0]), Began: all[1], Queued: all[2], Granted: all[3], Released: all[4]})
	}
	return turns, nil
}

// CPU returns the processor time of the JVM.
func (l jarLocker) CPU() (time.Duration, error) {
	ns, err := l.jvm.call("cpu").last(1)
	if err != nil {
		return 0, err
	}
	return time.Duration(ns[0]), nil
}

// Threads returns how many threads the JVM has, but for those that only hold a lock.
func (l jarLocker) Threads() (int, error) {
	n, err := l.jvm.call("threads").last(1)
	if err != nil {
		return 0, err
	}
	return int(n[0]), nil
}

// Close ends the JVM.
func (l jarLocker) Close() error {
	l.jvm.close()
	return nil
}
