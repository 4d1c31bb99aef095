package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

// The head of the line was killed in its first milliseconds. The server has not seen the head
// listen, and takes its word that it is there.
func TestABlindHeadThatIsGoneCostsItsClaimAndNoMore(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		holder, next := f.Beside(), f.Behind()
		lease := holder.Locks("x")
		asked := f.All(f.Verb("enter"), faultproxy.Observe())
		keys := f.Keys("x")
		ghost := "ghost:1:30000::"
		f.forges("x", ghost)
		f.Must(f.Direct.ZAdd(background, keys.Waiters(), redis.Z{Score: -float64(time.Now().Add(time.Minute).UnixMilli()), Member: "~ghost"}).Err())
		waits := next.Queues("x", 2)
		f.Heard(1)
		f.Unlocks(next.Locks("y")) // by now its client has asked while the server saw it listen
		asked.WaitExecuted(f, asked.Hits()+1, world.Patience)
		late, began := f.lateness(world.Claim), time.Now()
		f.Unlocks(lease)
		if owner := f.Direct.HGet(background, keys.Record(), "owner").Val(); !strings.HasPrefix(owner, "ghost") {
			f.Fatalf("%q has it", owner)
		}
		f.Unlocks(waits.Gets())
		const soon = 1800 * time.Millisecond // a heartbeat would come two seconds after the claim
		if took := waits.At.Sub(began) - world.Claim; took < 0 || took > soon+late() {
			f.Errorf("it came %v after the claim", took)
		}
		f.nobody("x")
	})
}
