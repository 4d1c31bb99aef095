package pubsub_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
)

// lookEvery is that of the hub.
const lookEvery = 470 * time.Millisecond

// The lookout asks the server whenever the pool has dropped connections, as it does all the time on
// a bad link.
func TestASubscriptionThatIsConfirmedLateIsNotTakenForOneThatTheServerDoesNotSee(t *testing.T) {
	p := faultproxy.New(t, redistest.Start(t).Addr())
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr(), ConnMaxIdleTime: time.Millisecond})
	defer rdb.Close()
	held := p.Add(faultproxy.Rule{Match: faultproxy.Command("subscribe"), Times: 1, Action: faultproxy.HoldRequest()})
	looks := func() int { return p.Count(faultproxy.Command("pubsub")) }
	var heard recorder
	newHub(t, rdb).Listen("a", heard.listener())
	until(t, "it is asked for", func() bool { return held.Hits() == 1 })
	for began := time.Now(); looks() == 0 && time.Since(began) < 3*lookEvery; time.Sleep(5 * time.Millisecond) {
		if err := rdb.Ping(t.Context()).Err(); err != nil { // the pool drops a connection each time
			t.Fatal(err)
		}
	}
	asked := looks() // until it sees it, that is
	held.Release()
	until(t, "it is up", func() bool { ups, _ := heard.heard(); return ups > 0 })
	if ups, _ := heard.heard(); asked > 0 || ups != 1 {
		t.Errorf("the server was asked %d times whether it sees it, which was up %d times", asked, ups)
	}
}
