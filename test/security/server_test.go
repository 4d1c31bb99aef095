package security

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/world"
)

// These rights concern the server, and not keys or channels.

func asksForChannels(f *faulty) {
	v := f.targeted()
	rdb := f.may("+pubsub|channels")
	if got := rdb.PubSubChannels(background, "*").Val(); !slices.Contains(got, "fairlock:wake:"+v.client()) {
		f.Errorf("%q", got)
	}
	v.goesOn()
}

func scans(f *faulty) {
	lease := f.Beside().Locks("x")
	rdb := f.may("~nothing", "+scan +keys")
	found, _, err := rdb.Scan(background, 0, "*", 100).Result()
	f.Must(err)
	all, err := rdb.Keys(background, "*").Result()
	f.Must(err)
	for _, keys := range [][]string{found, all} {
		if !slices.Contains(keys, f.Keys("x").Record()) {
			f.Errorf("it finds %q", keys)
		}
	}
	f.Unlocks(lease)
}

func monitors(f *faulty) {
	f.Must(f.Direct.ConfigSet(background, "slowlog-log-slower-than", "0").Err())
	as := f.as("+monitor +slowlog|get")
	monitor, err := net.Dial("tcp", f.Addr)
	f.Must(err)
	defer monitor.Close()
	_, err = fmt.Fprintf(monitor, "AUTH %s any\r\nMONITOR\r\n", as.Username)
	f.Must(err)
	lines := bufio.NewScanner(monitor)
	for range 2 { // two replies: +OK
		lines.Scan()
	}
	lease := f.Beside().Locks("x", fairlock.Note("secret"))
	for lines.Scan() && !strings.Contains(lines.Text(), ":secret") {
	}
	f.Must(lines.Err())
	rdb := redis.NewClient(as)
	defer rdb.Close()
	slow := rdb.SlowLogGet(background, 100).Val()
	if !slices.ContainsFunc(slow, func(s redis.SlowLog) bool { return strings.Contains(strings.Join(s.Args, " "), ":secret") }) {
		f.Errorf("the slow log says %v", slow)
	}
	f.Unlocks(lease)
}

func asksForInformation(f *faulty) {
	v := f.targeted()
	info, err := f.may("+info").Info(background, "everything").Result()
	f.Must(err)
	if strings.Contains(info, "bank") || strings.Contains(info, v.client()) {
		f.Error("it tells of locks")
	}
	v.goesOn()
}

func flushesScripts(f *faulty) {
	rdb := f.may("+script|flush")
	v := f.targeted()
	f.Must(rdb.ScriptFlush(background).Err())
	v.undisturbed("SCRIPT FLUSH")
	f.Must(rdb.ScriptFlush(background).Err())
	v.goesOn()
}

func killsClients(f *faulty) {
	rdb := f.may("+client|kill +client|pause")
	lease := f.Beside(fairlock.WithLease(world.CalmLease)).Locks("x")
	waits := []*world.Wait{f.Beside().Queues("x", 1), f.Beside().Queues("x", 2)}
	for range 10 {
		for _, kind := range []string{"normal", "pubsub"} {
			f.Must(rdb.ClientKillByFilter(background, "TYPE", kind, "SKIPME", "yes").Err())
		}
	}
	f.RenewedAfter(lease)
	f.Unlocks(lease)
	f.Served(waits...)
	brief := f.Beside(fairlock.WithLease(world.BriefLease)).Locks("x")
	f.Ends(brief)
	const inTime = world.BriefLease + world.Soon
	f.Must(rdb.Do(background, "CLIENT", "PAUSE", (inTime + 400*time.Millisecond).Milliseconds(), "ALL").Err())
	f.Within(inTime, "its end", func() { <-brief.Done() })
	f.Until("the pause is over", func() bool { return f.Direct.Ping(background).Err() == nil })
	f.Free("x")
}

func flushes(f *faulty) {
	rdb := f.may("+flushall +flushdb")
	for _, forget := range []func() error{
		func() error { return rdb.FlushAll(background).Err() }, func() error { return rdb.FlushDB(background).Err() },
	} {
		lease := f.Beside().Locks("x")
		f.Ends(lease)
		f.Must(forget())
		f.Must(f.takesBeside(lease).Unlock(background))
		_ = lease.Unlock(background)
	}
	f.Loses()
}

func configures(f *faulty) {
	lease := f.Beside().Locks("x")
	f.Ends(lease)
	rdb := f.may("+config|set")
	f.Must(rdb.ConfigSet(background, "maxmemory-policy", "allkeys-random").Err())
	f.Must(rdb.ConfigSet(background, "maxmemory", "1").Err())
	f.Until("the record is evicted", func() bool {
		// A write makes the server check its memory.
		_ = f.Direct.Set(background, "something", "", time.Second).Err()
		return f.Direct.Exists(background, f.Keys("x").Record()).Val() == 0
	})
	f.Must(rdb.ConfigSet(background, "maxmemory", "0").Err())
	f.Must(f.takesBeside(lease).Unlock(background))
	f.Loses()
}
