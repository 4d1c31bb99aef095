package faults

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
)

// forges puts a ticket into a line, as anybody with rights to the lock's keys can.
func (f *faulty) forges(name, ticket string) {
	f.Helper()
	keys, now := f.Keys(name), time.Now()
	f.Must(f.Direct.RPush(background, keys.Queue(), fmt.Sprint(now.UnixMicro(), ":", ticket)).Err())
	f.Must(f.Direct.ZAdd(background, keys.Waiters(), redis.Z{Score: float64(now.Add(time.Minute).UnixMilli()), Member: ticket}).Err())
	f.Must(f.Direct.PExpire(background, keys.Queue(), time.Minute).Err())
	f.Must(f.Direct.PExpire(background, keys.Waiters(), time.Minute).Err())
}

// waitsAs returns the ticket of a waiting call.
func (f *faulty) waitsAs(name string) string {
	f.Helper()
	element := f.Direct.LIndex(background, f.Keys(name).Queue(), -1).Val()
	_, ticket, _ := strings.Cut(element, ":")
	return ticket
}

// Somebody with rights to one lock's keys puts tickets of another lock into its line, and releases.
func TestWhoHasRightsToOneLockGivesNoOtherLockAway(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		victim, holder, mallory := f.Beside(), f.Beside(), f.Beside()
		bank := holder.Locks("bank")
		waits := victim.Queues("bank", 1)
		f.Heard(1)
		ticket := f.waitsAs("bank")
		client, rest, _ := strings.Cut(ticket, ":")
		number, rest, _ := strings.Cut(rest, ":")
		n, err := strconv.Atoi(number)
		f.Must(err)
		var all []string // each is a lock of mallory's
		for what, forged := range map[string]string{
			"the very ticket":         ticket,
			"one with another lease":  fmt.Sprintf("%s:%d:1000::", client, n),
			"one with another note":   fmt.Sprintf("%s:%d:30000::other", client, n),
			"one with another owner":  fmt.Sprintf("%s:%d:30000:me:", client, n),
			"one that never was":      fmt.Sprintf("%s:%d:%s", client, n+1, rest),
			"one that never will be":  fmt.Sprintf("%s:%d:30000::", client, n+1000),
			"one that was long ended": fmt.Sprintf("%s:%d:30000::", client, 0),
		} {
			mine := mallory.Locks(what)
			f.forges(what, forged)
			f.Unlocks(mine)
			all = append(all, what)
		}
		for _, what := range all {
			f.Until(what+" has run out", func() bool { return f.Holder(what) == 0 })
			if waits.HasReturned() {
				f.Fatalf("%s: the victim has the bank: %v", what, waits.Err)
			}
			f.Keeps(bank)
		}
		f.Unlocks(bank)
		f.Served(waits)
		for range 2 { // nor was a ticket retired that is yet to come
			f.Unlocks(victim.Locks("one that never was"))
		}
		f.nobody("bank")
	})
}

// Messages say forced, evicted, hint or grant, but name another lock.
func TestAMessageCountsOnlyForTheLockThatItNames(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.Beside(), f.Beside()
		held := a.Locks("held")
		bank := b.Locks("bank")
		waits := a.Queues("bank", 1)
		f.Heard(1)
		ticket := f.waitsAs("bank")
		client, _, _ := strings.Cut(ticket, ":")
		channel := f.Prefix + ":wake:" + client
		record := f.Keys("mine").Record()
		mine := held.Owner() + ":30000::"
		for _, payload := range []string{
			fmt.Sprintf("forced %d %s %s", held.Token(), mine, record),
			fmt.Sprintf("evicted %s %s", ticket, record),
			fmt.Sprintf("hint %s %s", ticket, record),
			fmt.Sprintf("grant %d 3000 %d %s %s", time.Now().UnixMicro(), held.Token()+1e6, ticket, record),
			fmt.Sprintf("grant %d 3000 %d %s %s", time.Now().UnixMicro(), int64(1)<<53-1, ticket, record),
			"grant", "forced 1", strings.Repeat("x", 1<<20), "\x00\x1b[31m", "",
		} {
			f.Must(f.Direct.Publish(background, channel, payload).Err())
		}
		f.Unlocks(a.Locks("after")) // and a hears messages in order
		next := a.Queues("bank", 2)
		waits.Waits()
		f.Keeps(held)
		f.Keeps(bank)
		f.Unlocks(bank)
		f.Served(waits, next)
		f.Unlocks(held)
		f.nobody("bank")
	})
}

func TestALeaseThatIsForcedByItsOwnLockerIsLostAtOnce(t *testing.T) {
	onFaulty(t, func(f *faulty) { f.forcesItsOwn() })
	onFaulty(t, func(f *faulty) { f.plain().forcesItsOwn() })
}

func (f *faulty) forcesItsOwn() {
	a := f.Beside(fairlock.WithLease(time.Hour)) // no renewal tells it soon
	lease := a.Locks("x")
	f.Ends(lease)
	f.Must(a.ForceUnlock(background, "x"))
	if lease.Err() == nil {
		f.Error("it is still trusted when ForceUnlock has returned")
	}
	<-lease.Done()
	f.nobody("x")
}
