package microbench

import (
	"context"
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

// BenchmarkObserver compares a Locker without an Observer with one whose Observer does nothing.
func BenchmarkObserver(b *testing.B) {
	for name, options := range map[string][]fairlock.Option{"absent": nil, "present": {fairlock.WithObserver(nothing{})}} {
		b.Run(name, func(b *testing.B) {
			locker := fairlock.New(redistest.Start(b).Client(b), options...)
			defer locker.Close()
			b.ReportAllocs()
			for b.Loop() {
				lease, err := locker.Lock(context.Background(), "x")
				if err != nil {
					b.Fatal(err)
				}
				_ = lease.Unlock(context.Background())
			}
		})
	}
}

type nothing struct{}

func (nothing) Observe(fairlock.Event) {}
