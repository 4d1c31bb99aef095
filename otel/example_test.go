package otel_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/embedded"
	"github.com/fairlock/locks/otel"
)

func Example() {
	server, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()

	// A real program has a reader that exports. If its providers are the global ones, New needs no
	// option.
	reader := sdkmetric.NewManualReader()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	observer, err := otel.New(otel.WithMeterProvider(meters), otel.WithKind("fair"))
	if err != nil {
		panic(err)
	}
	locker := fairlock.New(rdb, fairlock.WithObserver(observer))
	ctx := context.Background()
	lease, err := locker.Lock(ctx, "order:42")
	if err != nil {
		panic(err)
	}
	defer lease.Unlock(ctx)
	_ = locker.Close() // then all events have been observed

	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		panic(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
			kind, _ := sum.DataPoints[0].Attributes.Value("fairlock.kind")
			fmt.Println(m.Name, sum.DataPoints[0].Value, m.Unit, kind.AsString())
		}
	}
	// Unordered output:
	// fairlock.acquisitions 1 {lock} fair
	// fairlock.held 1 {lock} fair
}
