package snippets_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/quorum"
	"github.com/fairlock/locks/test/redistest"
)

func TestAQuorumIsUsedAsOneServerIs(t *testing.T) {
	ctx := t.Context()
	var addrs []string
	for range 3 {
		addrs = append(addrs, redistest.Start(t).Addr())
	}
	var paid int64
	pay := func(_ context.Context, token int64) error {
		paid = token
		return nil
	}
	//guide:quorum.md
	nodes := []redis.UniversalClient{ // masters that do not replicate each other
		redis.NewClient(&redis.Options{Addr: addrs[0]}),
		redis.NewClient(&redis.Options{Addr: addrs[1]}),
		redis.NewClient(&redis.Options{Addr: addrs[2]}),
	}
	locker := quorum.New(nodes) // one per process
	defer locker.Close()
	//guide:end
	for _, rdb := range nodes {
		t.Cleanup(func() { _ = rdb.Close() })
	}
	must(t, locker.Init(ctx))
	//guide:quorum.md
	err := locker.Do(ctx, "order:42", func(ctx context.Context, lease *quorum.Lease) error {
		return pay(ctx, lease.Token()) // ctx ends when no majority can be trusted any more
	})
	//guide:end
	must(t, err)
	if paid == 0 {
		t.Error("nothing was paid under a token")
	}
	comingFromRedsync(t, nodes[0], nodes[1], nodes[2])
	single := fairlock.New(nodes[0])
	defer single.Close()
	before := paid
	//guide:quorum.md
	err = single.Do(ctx, "order:42", func(ctx context.Context, lease *fairlock.Lease) error {
		return locker.Do(ctx, "order:42", func(ctx context.Context, _ *quorum.Lease) error {
			return pay(ctx, lease.Token())
		})
	})
	//guide:end
	must(t, err)
	if paid <= before {
		t.Errorf("the token of the server's lock is %d, after %d of the quorum's", paid, before)
	}
	must(t, locker.Do(ctx, "order:42", func(ctx context.Context, lease *quorum.Lease) error { return pay(ctx, lease.Token()) }))
}

func comingFromRedsync(t *testing.T, a, b, c redis.UniversalClient) {
	t.Helper()
	ctx := t.Context()
	//guide:coming-from.md
	locker := quorum.New([]redis.UniversalClient{a, b, c})
	defer locker.Close()
	lease, err := locker.Lock(ctx, "order:42")
	//guide:end
	must(t, err)
	var one fairlock.Interface = locker
	_ = one
	must(t, lease.Unlock(ctx))
}

func TestTheRightsAtANodeOfAQuorumThatTheGuideTellsAreEnough(t *testing.T) {
	var servers []*redistest.Server
	var nodes []redis.UniversalClient
	for range 3 {
		s := redistest.Start(t)
		servers, nodes = append(servers, s), append(nodes, restricted(t, s, ofANode, "+scan"))
	}
	locker := quorum.New(nodes)
	defer locker.Close()
	must(t, locker.Init(t.Context()))
	exercises(t, locker, fairlock.Note("first"))
	for _, err := range locker.List(t.Context()) {
		must(t, err)
	}
	for _, s := range servers {
		for _, entry := range s.Client(t).ACLLog(t.Context(), 10).Val() {
			if entry.Object != "client|setinfo" {
				t.Errorf("refused: %+v", *entry)
			}
		}
	}
}
