package microbench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

// BenchmarkLockAll has ten locks that nobody else wants, in turns: by one LockAll, and one after
// the other. ratio is the cost of the former in units of the latter.
func BenchmarkLockAll(b *testing.B) {
	ctx := context.Background()
	locker := fairlock.New(redistest.Start(b).Client(b))
	defer locker.Close()
	names := make([]string, 10)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	together := func() {
		leases, err := locker.LockAll(ctx, names)
		must(err)
		must(leases.Unlock(ctx))
	}
	apart := func() {
		var all []*fairlock.Lease
		for _, name := range names {
			lease, err := locker.Lock(ctx, name)
			must(err)
			all = append(all, lease)
		}
		for _, lease := range all {
			must(lease.Unlock(ctx))
		}
	}
	apart()
	var one, ten time.Duration
	n := 0
	for b.Loop() {
		start := time.Now()
		together()
		between := time.Now()
		apart()
		one, ten, n = one+between.Sub(start), ten+time.Since(between), n+1
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(one.Nanoseconds())/float64(n), "ns/lockall")
	b.ReportMetric(float64(ten.Nanoseconds())/float64(n), "ns/ten")
	b.ReportMetric(float64(one)/float64(ten), "ratio")
}
