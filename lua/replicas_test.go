package lua

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/faultproxy"
)

// asksReplicas enters and WAITs for one replica. There is none.
func asksReplicas(t *testing.T, s *Server, keys Keys) {
	t.Helper()
	ticket := NewTicket("a", 1, usual, "", "").String()
	need := Replicas{N: 1, Within: 20 * time.Millisecond}
	answer, err := s.Enter(ctx, keys, Enter{Try: true, Spare: usual, Tickets: []EnterTicket{{Ticket: parsed(ticket)}}, Replicas: need})
	must(t, err)
	equal(t, "status", answer.Tickets[0].Status, Granted)
	equal(t, "confirmed", *answer.Confirmed, Confirmed{})
	attached, err := s.Attached(ctx, keys)
	must(t, err)
	equal(t, "attached", attached, 0)
}

func TestReplicasAreAskedOnTheConnectionThatWroteOnAClusterToo(t *testing.T) {
	s := onCluster(t)
	s.rdb.Do(ctx, "config", "resetstat")
	asksReplicas(t, NewServer(s.rdb, "fairlock:wake:", "a"), s.keys)
	stats := s.rdb.Info(ctx, "commandstats").Val()
	equal(t, "asked", strings.Contains(stats, "cmdstat_wait:"), true)
}

// The node at the first address says that the slot has moved. What the client learns of the slot
// later leads to another node.
func TestALockThatHasMovedIsFollowedWithItsReplicas(t *testing.T) {
	s := onCluster(t)
	server := cluster(t)
	old := faultproxy.New(t, server.Addr())
	moved := old.Add(faultproxy.Rule{
		Match:  faultproxy.Command("evalsha", "eval"),
		Action: faultproxy.RewriteReply(func([]byte) []byte { return []byte("-MOVED 1 127.0.0.1:1\r\n") }),
	})
	rdb := clusterClient(t, server, func(o *redis.ClusterOptions) {
		o.ClusterSlots = func(context.Context) ([]redis.ClusterSlot, error) {
			addr := old.Addr()
			if moved.Executed() > 1 {
				addr = server.Addr()
			}
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
		}
	})
	asksReplicas(t, NewServer(rdb, "fairlock:wake:", "a"), s.keys)
	equal(t, "was told that it has moved", moved.Executed() > 1, true)
}

func TestAnswersOfReplicasThatMakeNoSenseAreErrors(t *testing.T) {
	for _, need := range []Replicas{{N: 1}, {N: 1, Disk: true}} {
		for _, reply := range []any{nil, "1", []any{int64(1)}} {
			wait := newOnce(ctx, need.command())
			wait.SetVal(reply)
			got := need.confirmed(wait)
			equal(t, "enough", got.Enough(need), false)
			equal(t, "an error", got.Err != nil, true)
		}
		wait := newOnce(ctx, need.command())
		wait.SetErr(said("ERR unknown command 'WAITAOF', with args beginning with: "))
		equal(t, "unsupported", errors.Is(need.confirmed(wait).Err, errors.ErrUnsupported), need.Disk)
	}
}

// As when the password has changed and a new connection is needed.
func TestARequestForWhoseConnectionTheServerHasNoUserSaysSo(t *testing.T) {
	rdb := single(t).Client(t, func(o *redis.Options) { o.Username, o.Password = "nobody", "x" })
	s := NewServer(rdb, "fairlock:wake:", "a")
	tickets := []EnterTicket{{Ticket: NewTicket("a", 1, usual, "", "")}}
	for _, need := range []Replicas{{}, {N: 1, Within: time.Millisecond}} {
		_, err := s.Enter(ctx, keysOf(t, "x"), Enter{Try: true, Spare: usual, Tickets: tickets, Replicas: need})
		equal(t, "refused", redis.HasErrorPrefix(err, "WRONGPASS"), true)
		equal(t, "unanswered", Unanswered(err), false)
	}
}

// go-redis fails all of a pipeline of which a later reply does not come.
func TestAGrantIsNotLostWithTheReplyOfTheReplicas(t *testing.T) {
	rdb := single(t).Client(t, func(o *redis.Options) { o.ReadTimeout = time.Second })
	s := NewServer(struct{ redis.UniversalClient }{rdb}, "fairlock:wake:", "a") // its timeouts are hidden
	keys, err := NewKeys("fairlock", "late replicas")
	must(t, err)
	ticket := NewTicket("a", 1, usual, "", "")
	need := Replicas{N: 1, Within: 3 * time.Second}
	answer, err := s.Enter(ctx, keys, Enter{Try: true, Spare: usual, Tickets: []EnterTicket{{Ticket: ticket}}, Replicas: need})
	must(t, err)
	equal(t, "status", answer.Tickets[0].Status, Granted)
	equal(t, "confirmed", answer.Confirmed.Err != nil, true)
}
