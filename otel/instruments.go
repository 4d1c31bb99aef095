package otel

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

type instruments struct {
	wait, hold                                                      metric.Float64Histogram
	held                                                            metric.Int64UpDownCounter
	acquisitions, lost, queued, renewals, passedOver, reconnections metric.Int64Counter
}

// bounds are the bounds of the buckets, in seconds: from a round trip in one machine to a batch
// job.
var bounds = []float64{
	100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600,
}

func newInstruments(m metric.Meter) (instruments, error) {
	var wrong error
	histogram := func(name, what string) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(bounds...))
		wrong = errors.Join(wrong, err)
		return h
	}
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		wrong = errors.Join(wrong, err)
		return c
	}
	held, err := m.Int64UpDownCounter("fairlock.held", metric.WithUnit("{lock}"), metric.WithDescription("Locks held now."))
	wrong = errors.Join(wrong, err)
	return instruments{
		wait:          histogram("fairlock.wait.duration", "How long calls took to get a lock or to give up."),
		hold:          histogram("fairlock.hold.duration", "How long locks were held."),
		held:          held,
		acquisitions:  counter("fairlock.acquisitions", "{lock}", "Locks acquired; re-entries are none."),
		lost:          counter("fairlock.lost", "{lock}", "Locks that were lost while held."),
		queued:        counter("fairlock.queued", "{call}", "Times that a call had to wait."),
		renewals:      counter("fairlock.renewals", "{lock}", "Leases prolonged."),
		passedOver:    counter("fairlock.passed_over", "{call}", "Waiters that had to enter the line again."),
		reconnections: counter("fairlock.reconnections", "{reconnection}", "Times the subscription was made again."),
	}, wrong
}
