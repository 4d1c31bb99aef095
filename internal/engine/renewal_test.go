package engine

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// stalled answers a batch of renewals, of the first two of which the records do not know, and hangs
// when it is asked for those again.
type stalled struct {
	Protocol
	asked, goesOn chan struct{}
}

func (s *stalled) Renew(_ context.Context, all []lua.Renewal) []lua.Renewed {
	answers := make([]lua.Renewed, len(all))
	for i := range answers[2:] {
		answers[2+i].Remaining = time.Minute
	}
	return answers
}

func (s *stalled) Reassert(context.Context, lua.Renewal) lua.Renewed {
	s.asked <- struct{}{}
	<-s.goesOn
	return lua.Renewed{Remaining: time.Minute}
}

// counts answers renewals with an older count of the votes than the one that comes while they are
// under way.
type counts struct {
	Protocol
	meanwhile func()
	number    uint64
}

func (s *counts) Renew(_ context.Context, all []lua.Renewal) []lua.Renewed {
	s.meanwhile()
	return []lua.Renewed{{Remaining: time.Minute, Count: s.number}}
}

func TestTheLatestCountOfVotesSaysForHowLongALockIsTrusted(t *testing.T) {
	for answers, shortened := range map[uint64]bool{1: true, 3: false} {
		now := time.Now()
		c, leases := held(t, 30*time.Second, 1)
		lease := leases[0]
		h := lease.share.turn.hold
		server := &counts{c.protocol, func() {
			c.Shorten(h, now.Add(20*time.Second), 2)
			c.Shorten(h, now.Add(time.Second), 1) // it is late
		}, answers}
		c.protocol = server
		var b batch
		c.mu.Lock()
		b.add(h)
		c.mu.Unlock()
		if err := c.renew(b.holds, b.renewals); err != nil {
			t.Fatal(err)
		}
		if left := lease.Deadline().Sub(now); (left == 20*time.Second) != shortened || left < 20*time.Second {
			t.Errorf("the answer is count %d, and the lock is trusted for %v", answers, left)
		}
	}
}

func TestALockThatIsAskedForAgainKeepsNoOtherFromTheAnswerToItsRenewal(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	c := New(rdb, "fairlock", lua.NewServer, &leaving{}, []Option{WithLogger(slog.New(slog.DiscardHandler))})
	defer c.Close()
	server := &stalled{c.protocol, make(chan struct{}), make(chan struct{})}
	c.protocol = server
	var all []*Lease
	for i := range 4 {
		keys, err := lua.NewKeys("fairlock", fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		granted := Granted{Keys: keys, Ticket: c.Ticket(&Request{Lease: time.Minute}), Token: 1, Requests: new(Requests)}
		term := rules.Term{Span: 30 * time.Second, Ends: time.Now().Add(30 * time.Second)}
		turn := c.Keep(granted, Run{}, term, For{Name: fmt.Sprint(i)}, time.Now())
		lease, err := c.Adopt(t.Context(), turn, time.Now(), 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, lease)
	}
	c.tick(time.Now().Add(21 * time.Second))
	<-server.asked
	<-server.asked // the second, while the first hangs
	for i, lease := range all[2:] {
		if left := time.Until(lease.Deadline()); left < 50*time.Second {
			t.Errorf("lock %d is trusted for %v", i+2, left)
		}
	}
	if h := all[0].share.turn.hold; !h.Requests.Underway() {
		t.Error("a turn could begin on a hold of which the server does not know")
	}
	close(server.goesOn)
}
