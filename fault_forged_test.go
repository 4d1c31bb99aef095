package fairlock_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
)

// forges stands a ticket in a line, with the rights to that lock's keys.
func (f *faulty) forges(name, ticket string) {
	f.Helper()
	keys, now := f.keys(name), time.Now()
	f.must(f.direct.RPush(faultCtx, keys.Queue(), fmt.Sprint(now.UnixMicro(), ":", ticket)).Err())
	f.must(f.direct.ZAdd(faultCtx, keys.Waiters(), redis.Z{Score: float64(now.Add(time.Minute).UnixMilli()), Member: ticket}).Err())
	f.must(f.direct.PExpire(faultCtx, keys.Queue(), time.Minute).Err())
	f.must(f.direct.PExpire(faultCtx, keys.Waiters(), time.Minute).Err())
}

// waitsAs returns the ticket under which a call waits.
func (f *faulty) waitsAs(name string) string {
	f.Helper()
	element := f.direct.LIndex(faultCtx, f.keys(name).Queue(), -1).Val()
	_, ticket, _ := strings.Cut(element, ":")
	return ticket
}

// Who may touch the keys of one lock has a ticket of another's in its line, and releases.
func TestWhoHasRightsToOneLockGivesNoOtherLockAway(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		victim, holder, mallory := f.beside(), f.beside(), f.beside()
		bank := holder.locks("bank")
		waits := victim.queues("bank", 1)
		f.heard(1)
		ticket := f.waitsAs("bank")
		client, rest, _ := strings.Cut(ticket, ":")
		number, rest, _ := strings.Cut(rest, ":")
		n, err := strconv.Atoi(number)
		f.must(err)
		for what, forged := range map[string]string{
			"the very ticket":         ticket,
			"one with another lease":  fmt.Sprintf("%s:%d:1000::", client, n),
			"one with another note":   fmt.Sprintf("%s:%d:30000::other", client, n),
			"one with another owner":  fmt.Sprintf("%s:%d:30000:me:", client, n),
			"one that never was":      fmt.Sprintf("%s:%d:%s", client, n+1, rest),
			"one that never will be":  fmt.Sprintf("%s:%d:30000::", client, n+1000),
			"one that was long ended": fmt.Sprintf("%s:%d:30000::", client, 0),
		} {
			mine := mallory.locks("mine")
			f.forges("mine", forged)
			f.unlocks(mine)
			f.until(what+" has run out", func() bool { return f.holder("mine") == 0 })
			if waits.hasReturned() {
				f.Fatalf("%s: the victim has the bank: %v", what, waits.err)
			}
			f.keeps(bank)
		}
		f.unlocks(bank)
		f.served(waits)
		for range 2 { // nor was a ticket retired that is only to come
			f.unlocks(victim.locks("mine"))
		}
		f.nobody("bank")
	})
}

// What is forced, evicted or told to ask is another lock's.
func TestAMessageCountsOnlyForTheLockThatItNames(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.beside(), f.beside()
		held := a.locks("held")
		bank := b.locks("bank")
		waits := a.queues("bank", 1)
		f.heard(1)
		ticket := f.waitsAs("bank")
		client, _, _ := strings.Cut(ticket, ":")
		channel := f.prefix + ":wake:" + client
		record := f.keys("mine").Record()
		mine := held.Owner() + ":30000::"
		for _, payload := range []string{
			fmt.Sprintf("forced %d %s %s", held.Token(), mine, record),
			fmt.Sprintf("evicted %s %s", ticket, record),
			fmt.Sprintf("hint %s %s", ticket, record),
			fmt.Sprintf("grant %d 3000 %d %s %s", time.Now().UnixMicro(), held.Token()+1e6, ticket, record),
			fmt.Sprintf("grant %d 3000 %d %s %s", time.Now().UnixMicro(), int64(1)<<53-1, ticket, record),
			"grant", "forced 1", strings.Repeat("x", 1<<20), "\x00\x1b[31m", "",
		} {
			f.must(f.direct.Publish(faultCtx, channel, payload).Err())
		}
		f.unlocks(a.locks("after")) // and a hears in order
		next := a.queues("bank", 2)
		waits.waits()
		f.keeps(held)
		f.keeps(bank)
		f.unlocks(bank)
		f.served(waits, next)
		f.unlocks(held)
		f.nobody("bank")
	})
}

func TestALeaseThatIsForcedByItsOwnLockerIsLostAtOnce(t *testing.T) {
	onFaulty(t, func(f *faulty) { f.forcesItsOwn() })
	onFaulty(t, func(f *faulty) { f.plain().forcesItsOwn() })
}

func (f *faulty) forcesItsOwn() {
	a := f.beside(fairlock.WithLease(time.Hour)) // nothing tells it soon otherwise
	lease := a.locks("x")
	f.ends(lease)
	f.must(a.ForceUnlock(faultCtx, "x"))
	if lease.Err() == nil {
		f.Error("it is still trusted when ForceUnlock has returned")
	}
	<-lease.Done()
	f.nobody("x")
}
