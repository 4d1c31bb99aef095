package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/redistest"
)

// aDemo runs a demo that keeps its promises. One of them is a time: if that alone was too long, on
// a busy machine, it runs again, up to three times.
func aDemo(t *testing.T, env []string, args ...string) (p *tool) {
	t.Helper()
	const late = "fairlock: broken: after kill -9 it took "
	for range 3 {
		p = fairlockWith(t, env, append([]string{"demo"}, args...)...).start()
		if p.ended() == 0 || !strings.HasPrefix(p.stderr.String(), late) || strings.HasPrefix(p.stderr.String(), late+"0s") {
			break
		}
	}
	p.ends(0)
	return p
}

// results runs a demo and returns its results.
func results(t *testing.T, args ...string) map[string]int {
	t.Helper()
	work := []string{"FAIRLOCK_REDIS=redis://127.0.0.1:1"} // the demo leaves that one alone
	p := aDemo(t, work, append([]string{"--plain"}, args...)...)
	if text := p.stderr.String(); text != "" {
		t.Errorf("stderr: %s", text)
	}
	values := make(map[string]int)
	var keys []string
	for _, line := range p.rest() {
		key, text, _ := strings.Cut(line, "=")
		value, err := strconv.Atoi(text)
		if err != nil {
			t.Errorf("line %q", line)
		}
		keys = append(keys, key)
		values[key] = value
	}
	if got := strings.Join(keys, " "); got != "grants inversions overlaps sold stock buyers handover_p50_us handover_p99_us recovered_ms" {
		t.Errorf("keys: %s", got)
	}
	return values
}

func checkPromises(t *testing.T, v map[string]int) {
	t.Helper()
	if v["inversions"] != 0 || v["overlaps"] != 0 || v["sold"] != 100 || v["stock"] != 0 || v["buyers"] != 2000 {
		t.Errorf("promises: %v", v)
	}
	if v["grants"] < 120 || v["handover_p50_us"] <= 0 || v["handover_p99_us"] < v["handover_p50_us"] || v["recovered_ms"] <= 0 {
		t.Errorf("measures: %v", v)
	}
}

func TestTheDemoIsToldOfARedisByAVariableOfItsOwn(t *testing.T) {
	t.Parallel()
	p := fairlockWith(t, []string{"FAIRLOCK_DEMO_REDIS=redis://127.0.0.1:1"}, "demo").start()
	p.ends(69)
}

func TestTheDemoKeepsItsPromisesOnARealServerAndDisturbsNobody(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	must(t, rdb.Set(t.Context(), "fairlock:lock:{jobs}", "somebody else's", 0).Err())
	for _, workers := range []int{2, 5} {
		checkPromises(t, results(t, "--redis", "redis://"+s.Addr(), "--workers", fmt.Sprint(workers)))
	}
	if got := rdb.Get(t.Context(), "fairlock:lock:{jobs}").Val(); got != "somebody else's" {
		t.Errorf("another's key is now %q", got)
	}
	channels, err := rdb.PubSubChannels(t.Context(), "*").Result()
	must(t, err)
	if len(channels) > 0 {
		t.Errorf("subscriptions are left: %q", channels)
	}
	keys, err := rdb.Keys(t.Context(), "fairlock-demo-*").Result()
	must(t, err)
	for _, key := range keys {
		if ttl := rdb.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > 17*time.Minute { // 16 and two leases
			t.Errorf("%s is to live for %v", key, ttl)
		}
		if !strings.Contains(key, ":token:") && !strings.Contains(key, ":waiters:") {
			t.Errorf("%s is left", key)
		}
	}
}

// Not beside other tests: with the race detector, the embedded server has enough to do. It runs in
// the demo's own process.
func TestADemoForPeopleTellsItsStoryAndKeepsItsPromisesOnTheEmbeddedServer(t *testing.T) {
	p := aDemo(t, nil)
	text := strings.Join(p.rest(), "\n")
	for _, part := range []string{"1 2 3 4 5 6 7", "job 24", "kill -9 of worker B", "died with its worker", "depth 3", "100 sold", "refused", "Every promise was kept."} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	if strings.ContainsAny(text, "\x1b\r") {
		t.Error("there is colour although it is no terminal")
	}
}

// nobodyIsConnected waits until the demo and its workers have closed all connections to the server.
func nobodyIsConnected(t *testing.T, rdb *redis.Client) {
	t.Helper()
	eventually(t, "nobody is connected", func() bool {
		list, err := rdb.ClientList(t.Context()).Result()
		must(t, err)
		return !strings.Contains(list, "name=fairlock ")
	})
}

func TestADemoWhoseLockIsTakenAwayFails(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	p := fairlockWith(t, nil, "demo", "--redis", "redis://"+s.Addr()).start()
	var line []string
	eventually(t, "somebody waits", func() bool {
		line = rdb.Keys(t.Context(), "fairlock-demo-*:queue:{jobs}").Val()
		return len(line) > 0
	})
	must(t, rdb.Del(t.Context(), strings.Replace(line[0], ":queue:", ":lock:", 1)).Err())
	p.ends(1)
	p.complains("lost")
}

func TestADemoThatNobodyReadsEndsAndLeavesNoKeyForLong(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	p := fairlockWith(t, nil, "demo", "--redis", "redis://"+s.Addr())
	r, w, err := os.Pipe()
	must(t, err)
	p.startOn(w)
	must(t, w.Close())
	_, err = r.Read(make([]byte, 1)) // it has begun
	must(t, err)
	must(t, r.Close())
	p.ends(74)
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		if left := rdb.PTTL(t.Context(), key).Val(); left > time.Hour {
			t.Errorf("%s stays for %v", key, left)
		}
	}
	nobodyIsConnected(t, rdb)
}

func TestADemoThatIsInterruptedEndsWithItsWorkers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	p := fairlockWith(t, nil, "demo", "--redis", "redis://"+s.Addr()).start()
	for !strings.Contains(p.line(), "job 3 ") {
	}
	must(t, p.cmd.Process.Signal(syscall.SIGINT))
	p.ends(130)
	if text := p.stderr.String(); text != "" {
		t.Errorf("stderr: %s", text)
	}
	nobodyIsConnected(t, rdb)
}

func TestTheWorkersOfAKilledDemoEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	p := fairlockWith(t, nil, "demo", "--redis", "redis://"+s.Addr()).start()
	for !strings.Contains(p.line(), "job 3 ") {
	}
	must(t, p.cmd.Process.Kill())
	nobodyIsConnected(t, rdb)
}

func TestADemoWithoutItsServerIs69(t *testing.T) {
	t.Parallel()
	p := fairlockWith(t, nil, "demo", "--plain", "--redis", "redis://127.0.0.1:1").start()
	p.ends(69)
	p.complains("connection refused")
	if rest := p.rest(); len(rest) > 0 {
		t.Errorf("stdout: %q", rest)
	}
}
