package fairlock

import (
	"context"
	"errors"
	"fmt"
	"github.com/fairlock/locks/fairlock/embedded"
	"github.com/redis/go-redis/v9"
	"sync"
	"testing"
	"time"
)

func smoke(t *testing.T, addr string) {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	rdb.FlushAll(ctx)
	a := New(rdb)
	b := New(rdb)
	l, err := a.Lock(ctx, "x")
	if err != nil {
		t.Fatal(err)
	}
	l2, err := a.Lock(l.Context(), "x")
	fmt.Println(l2.Depth(), err)
	time.Sleep(700 * time.Millisecond)
	_, err = b.TryLock(ctx, "x")
	fmt.Println(err)
	c2, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	_, err = b.Lock(c2, "x")
	cancel()
	fmt.Println(err, errors.Is(err, context.DeadlineExceeded))
	s, err := a.Inspect(ctx, "x")
	fmt.Printf("%+v %+v %v\n", s, s.Holder, err)
	fmt.Println(l2.Unlock(ctx), l2.Unlock(ctx))
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			k := b
			if i%2 == 0 {
				k = a
			}
			time.Sleep(time.Duration(i) * 2 * time.Millisecond)
			err := k.Do(ctx, "x", func(ctx context.Context, l *Lease) error { fmt.Print(i, " "); return nil })
			if err != nil {
				t.Error(err)
			}
		})
	}
	time.Sleep(100 * time.Millisecond)
	t0 := time.Now()
	fmt.Println(l.Unlock(ctx))
	wg.Wait()
	fmt.Println(time.Since(t0))
	fmt.Println(l.Err(), context.Cause(l.Context()))
	a.Close()
	b.Close()
	fmt.Println(rdb.Keys(ctx, "*").Val(), rdb.PubSubChannels(ctx, "*").Val())
}
func TestMini(t *testing.T) { m, _ := embedded.Start(); defer m.Close(); smoke(t, m.Addr()) }
func TestReal(t *testing.T) { smoke(t, "127.0.0.1:7999") }
func BenchmarkPair(b *testing.B) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:7999"})
	l := New(rdb)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		h, _ := l.Lock(ctx, "p")
		h.Unlock(ctx)
	}
}
func BenchmarkNoop(b *testing.B) {
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:7999"})
	ctx := context.Background()
	sha := c.ScriptLoad(ctx, "return 1").Val()
	b.ReportAllocs()
	for b.Loop() {
		c.EvalSha(ctx, sha, nil).Err()
		c.EvalSha(ctx, sha, nil).Err()
	}
}
