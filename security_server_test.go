package fairlock_test

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
)

// The rights that are about the server, and not about keys or channels.

func asksForChannels(f *faulty) {
	v := f.targeted()
	rdb := f.may("+pubsub|channels")
	if got := rdb.PubSubChannels(faultCtx, "*").Val(); !slices.Contains(got, "fairlock:wake:"+v.client()) {
		f.Errorf("%q", got)
	}
	v.goesOn()
}

func scans(f *faulty) {
	lease := f.beside().locks("x")
	rdb := f.may("~nothing", "+scan +keys")
	found, _, err := rdb.Scan(faultCtx, 0, "*", 100).Result()
	f.must(err)
	all, err := rdb.Keys(faultCtx, "*").Result()
	f.must(err)
	for _, keys := range [][]string{found, all} {
		if !slices.Contains(keys, f.keys("x").Record()) {
			f.Errorf("it finds %q", keys)
		}
	}
	f.unlocks(lease)
}

func monitors(f *faulty) {
	f.must(f.direct.ConfigSet(faultCtx, "slowlog-log-slower-than", "0").Err())
	as := f.as("+monitor +slowlog|get")
	monitor, err := net.Dial("tcp", f.addr)
	f.must(err)
	defer monitor.Close()
	_, err = fmt.Fprintf(monitor, "AUTH %s any\r\nMONITOR\r\n", as.Username)
	f.must(err)
	lines := bufio.NewScanner(monitor)
	for range 2 { // +OK
		lines.Scan()
	}
	lease := f.beside().locks("x", fairlock.Note("secret"))
	for lines.Scan() && !strings.Contains(lines.Text(), ":secret") {
	}
	f.must(lines.Err())
	rdb := redis.NewClient(as)
	defer rdb.Close()
	slow := rdb.SlowLogGet(faultCtx, 100).Val()
	if !slices.ContainsFunc(slow, func(s redis.SlowLog) bool { return strings.Contains(strings.Join(s.Args, " "), ":secret") }) {
		f.Errorf("the slow log says %v", slow)
	}
	f.unlocks(lease)
}

func asksForInformation(f *faulty) {
	v := f.targeted()
	info, err := f.may("+info").Info(faultCtx, "everything").Result()
	f.must(err)
	if strings.Contains(info, "bank") || strings.Contains(info, v.client()) {
		f.Error("it tells of locks")
	}
	v.goesOn()
}

func flushesScripts(f *faulty) {
	rdb := f.may("+script|flush")
	v := f.targeted()
	f.must(rdb.ScriptFlush(faultCtx).Err())
	v.undisturbed("SCRIPT FLUSH")
	f.must(rdb.ScriptFlush(faultCtx).Err())
	v.goesOn()
}

func killsClients(f *faulty) {
	rdb := f.may("+client|kill +client|pause")
	lease := f.beside(fairlock.WithLease(calmLease)).locks("x")
	waits := []*faultWait{f.beside().queues("x", 1), f.beside().queues("x", 2)}
	for range 10 {
		for _, kind := range []string{"normal", "pubsub"} {
			f.must(rdb.ClientKillByFilter(faultCtx, "TYPE", kind, "SKIPME", "yes").Err())
		}
	}
	f.renewedAfter(lease)
	f.unlocks(lease)
	f.served(waits...)
	brief := f.beside(fairlock.WithLease(briefLease)).locks("x")
	f.ends(brief)
	f.must(rdb.Do(faultCtx, "CLIENT", "PAUSE", (2 * briefLease).Milliseconds(), "ALL").Err())
	f.within(2*briefLease, "its end", func() { <-brief.Done() })
	f.free("x")
}

func flushes(f *faulty) {
	rdb := f.may("+flushall +flushdb")
	for _, forget := range []func() error{
		func() error { return rdb.FlushAll(faultCtx).Err() }, func() error { return rdb.FlushDB(faultCtx).Err() },
	} {
		lease := f.beside().locks("x")
		f.ends(lease)
		f.must(forget())
		f.must(f.takesBeside(lease).Unlock(faultCtx))
		_ = lease.Unlock(faultCtx)
	}
	f.loses()
}

func configures(f *faulty) {
	lease := f.beside().locks("x")
	f.ends(lease)
	rdb := f.may("+config|set")
	f.must(rdb.ConfigSet(faultCtx, "maxmemory-policy", "allkeys-random").Err())
	f.must(rdb.ConfigSet(faultCtx, "maxmemory", "1").Err())
	f.until("the record is evicted", func() bool {
		_ = f.direct.Set(faultCtx, "something", "", time.Second).Err() // which makes the server look at its memory
		return f.direct.Exists(faultCtx, f.keys("x").Record()).Val() == 0
	})
	f.must(rdb.ConfigSet(faultCtx, "maxmemory", "0").Err())
	f.must(f.takesBeside(lease).Unlock(faultCtx))
	f.loses()
}
