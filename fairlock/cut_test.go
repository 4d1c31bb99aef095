package fairlock

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/bubbles"
	"github.com/fairlock/locks/test/pipes"
)

// cutting is a hook that ends the goroutine of the next script once the script is answered.
type cutting struct{ next atomic.Bool }

func (c *cutting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *cutting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *cutting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "evalsha" && c.next.CompareAndSwap(true, false) {
			runtime.Goexit()
		}
		return err
	}
}

func TestALeaveThatAHookCutsShortAfterItsAnswerKeepsNobodyWaitingWhomTheAnswerGaveTheLock(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		server, hook := pipes.New(t), new(cutting)
		dial := func() *redis.Client {
			rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: server.Dial})
			t.Cleanup(func() { _ = rdb.Close() })
			return rdb
		}
		mine, direct := dial(), dial()
		mine.AddHook(hook)
		l, other := New(mine), New(dial())
		defer l.Close()
		defer other.Close()
		lease, err := other.Lock(t.Context(), "y")
		if err != nil || lease.Unlock(t.Context()) != nil { // so the server knows the scripts
			t.Fatal(err)
		}
		held, err := other.Lock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		defer runtime.KeepAlive(held)
		got := make(chan *Lease, 1)
		go func() {
			lease, err := l.Lock(t.Context(), "x")
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		synctest.Wait()
		time.Sleep(time.Second) // until it asks no more
		keys, _ := lua.NewKeys("fairlock", "x")
		var leaves []lua.LeaveTicket
		for field := range direct.HGetAll(t.Context(), keys.Record()).Val() {
			if ticket, err := lua.ParseTicket(field); err == nil {
				leaves = append(leaves, lua.LeaveTicket{Ticket: ticket, Token: 1})
			}
		}
		prompt, _ := l.core.Server.Prompt(context.Background(), time.Minute) // as an Unlock sends
		began, ended := time.Now(), make(chan struct{})
		hook.next.Store(true)
		go func() {
			defer close(ended)
			_, _ = l.send(context.Background(), prompt, keys, leaves)
			t.Error("it was not cut short")
		}()
		<-ended
		lease = <-got
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("it waited for another %v", took)
		}
		_ = lease.Unlock(t.Context())
	})
}
