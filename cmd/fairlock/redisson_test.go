package main

import (
	"strings"
	"testing"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/redisson"
	"github.com/fairlock/locks/test/redistest"
)

func TestTheLocksOfRedissonAreListedAndShownWhenAskedFor(t *testing.T) {
	s := redistest.Start(t)
	rdb, ctx := s.Client(t), t.Context()
	l := redisson.New(rdb)
	defer l.Close()
	lease, err := l.Lock(ctx, "order:42")
	must(t, err)
	queued, done := make(chan int, 1), make(chan error, 1)
	go func() {
		next, err := l.Lock(ctx, "order:42", redisson.OnQueued(func(n int) { queued <- n }))
		done <- err
		_ = next.Unlock(ctx)
	}()
	<-queued
	if text := prints(t, s, 0, "ls"); !strings.Contains(text, "no locks") {
		t.Errorf("a lock of Redisson's is taken for one of ours: %s", text)
	}
	must(t, rdb.RPush(ctx, "redisson_lock_queue:", "hides no lock").Err())
	must(t, rdb.RPush(ctx, "redisson_lock_queue:{"+strings.Repeat("n", 600)+"}", "hides no lock").Err())
	all := objects[locks.Record](t, s, 0, "ls", "--redisson")
	if len(all) != 1 || all[0].Name != "order:42" || all[0].Holder.Owner != lease.Owner() || all[0].Waiting != 1 || all[0].Kind != locks.Redisson {
		t.Errorf("%+v", all)
	}
	if text := prints(t, s, 0, "ls", "--redisson"); !strings.Contains(text, lease.Owner()) {
		t.Error(text)
	}
	text := prints(t, s, 0, "show", "--redisson", "order:42")
	for _, want := range []string{"redisson lock", "owner      " + lease.Owner(), "depth      1, in 1 hold", "waiting    1", "stays for "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	take(t, observer(t, s), "order:of ours")
	for _, verb := range []string{"ls", "show"} { // whose names completion offers
		at := "--redis=redis://" + s.Addr()
		if got := offered(1, "fish", "--", verb, at, "--redisson", ""); len(got) != 1 || !strings.HasPrefix(got[0], "order:42\t") {
			t.Errorf("%s --redisson goes on with %q", verb, got)
		}
		if got := offered(1, "fish", "--", verb, at, ""); len(got) != 1 || !strings.HasPrefix(got[0], "order:of ours\t") {
			t.Errorf("%s goes on with %q", verb, got)
		}
	}
	prints(t, s, exit.Usage, "ls", "--redisson", "--plain")
	prints(t, s, exit.Usage, "show", "--redisson", "--prefix", "app", "order:42")
	prints(t, s, exit.Nothing, "show", "--redisson", "another")
	must(t, lease.Unlock(ctx))
	must(t, <-done)
}
