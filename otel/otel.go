// Package otel turns what a Locker tells its Observer into OpenTelemetry metrics and spans.
//
//	observer, err := otel.New(otel.WithKind("fair"))
//	// ...
//	locker := fairlock.New(rdb, fairlock.WithObserver(observer))
//
// # Metrics
//
//	fairlock.wait.duration   s              histogram      calls, by outcome and how long they took
//	fairlock.hold.duration   s              histogram      ownerships that ended, by outcome and how long they lasted
//	fairlock.held            {lock}         up-down        ownerships now
//	fairlock.acquisitions    {lock}         counter        ownerships begun; a re-entry begins none
//	fairlock.lost            {lock}         counter        ownerships that ended in ErrLost
//	fairlock.queued          {call}         counter        calls that had to wait
//	fairlock.renewals        {lock}         counter        leases prolonged
//	fairlock.passed_over     {call}         counter        waiters that had to enter the line again
//	fairlock.reconnections   {reconnection} counter        times the subscription was made again
//
// Acquisitions are those released, lost and held now: fairlock.acquisitions equals the count of fairlock.hold.duration plus
// fairlock.held. (A Lease that nobody touches after its Locker was closed stays in it: nobody looks for its end any more.)
// How many calls wait now is no metric: a call is counted as queued when the server gave it a place, and
// when it ends nothing says whether it had one.
//
// # Spans
//
// Both are of kind internal, made when they have ended, and children of the span in the context of the call; roots if it
// has none.
//
//	fairlock.wait   every call, from its first request to its outcome
//	fairlock.hold   every ownership, from its acquisition to its end
//
// Where something is broken and error.type says what, their status is Error and the error is recorded. Not so when a lock
// was merely busy or a caller went away.
//
// # Attributes
//
//	fairlock.kind      all                 what WithKind says
//	fairlock.name      all of one lock     the lock's, after WithLockName
//	fairlock.outcome   wait                acquired, held, full, canceled, timeout, closed, evicted, error
//	                   hold                released, lost, unconfirmed: the server may keep it until its lease ends
//	error.type         wait, hold          of error, lost and unconfirmed: lost, not_replicated, the code of the server's
//	                                       answer (OOM, READONLY, ...), or else the error's type
//	fairlock.token     spans               the fencing token, of those that have one
//	fairlock.owner     spans               after WithLockOwner
//
// "wait" and "hold" are the histogram and the span of that name. The outcome held is that of TryLock and of WaitAtMost,
// timeout that of a context's deadline, and of WaitAtMost while the server said nothing.
package otel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/fairlock/locks/fairlock"
)

// scope is what the meter and the tracer are called.
const scope = "github.com/fairlock/locks/otel"

// observer keeps nothing but what New made.
type observer struct {
	settings
	instruments
	tracer trace.Tracer
	ready  map[result]labels
}

// New returns an Observer for any number of Lockers. Its Observe blocks no longer than the providers do: have spans exported
// by a batch processor.
func New(options ...Option) (fairlock.Observer, error) {
	s := settings{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, option := range options {
		if option == nil {
			s.err = errors.Join(s.err, invalid("an Option is nil"))
			continue
		}
		option(&s)
	}
	if s.err != nil {
		return nil, fmt.Errorf("fairlock: otel: %w", s.err)
	}
	made, err := newInstruments(s.meters.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL)))
	if err != nil {
		return nil, fmt.Errorf("fairlock: otel: %w", err)
	}
	o := &observer{
		settings: s, instruments: made,
		tracer: s.tracers.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
		ready:  make(map[result]labels, len(common)),
	}
	for _, r := range common {
		o.ready[r] = o.label("", r)
	}
	return o, nil
}

// Observe records one event.
func (o *observer) Observe(e fairlock.Event) {
	if e.Context == nil {
		e.Context = context.Background()
	}
	plain := o.labels(e.Name, result{})
	switch e.Kind {
	case fairlock.Queued:
		o.queued.Add(e.Context, 1, plain.add...)
	case fairlock.Acquired:
		o.acquisitions.Add(e.Context, 1, plain.add...)
		o.held.Add(e.Context, 1, plain.add...)
		o.ended(e, waitSpan, o.wait, result{outcome: acquired})
	case fairlock.GaveUp:
		o.ended(e, waitSpan, o.wait, waited(e.Context, e.Err))
	case fairlock.Released:
		o.held.Add(e.Context, -1, plain.add...)
		o.ended(e, holdSpan, o.hold, gaveBack(e.Err))
	case fairlock.Lost:
		o.held.Add(e.Context, -1, plain.add...)
		o.lost.Add(e.Context, 1, plain.add...)
		o.ended(e, holdSpan, o.hold, hasLost)
	case fairlock.Renewed:
		o.renewals.Add(e.Context, int64(e.Locks), plain.add...)
	case fairlock.PassedOver:
		o.passedOver.Add(e.Context, 1, plain.add...)
	case fairlock.Reconnected:
		o.reconnections.Add(e.Context, 1, plain.add...)
	}
}

// ended records something that took its time.
func (o *observer) ended(e fairlock.Event, span string, h metric.Float64Histogram, r result) {
	l := o.labels(e.Name, r)
	h.Record(e.Context, e.Took.Seconds(), l.record...)
	o.span(e, span, r, l)
}

// labels are attributes in the forms in which they are asked for.
type labels struct {
	add    []metric.AddOption
	record []metric.RecordOption
	start  trace.SpanStartOption
}

// labels are made once, but for what happens rarely and for names, of which there may be any number.
func (o *observer) labels(name string, r result) labels {
	if l, ok := o.ready[r]; ok && (name == "" || !o.names) {
		return l
	}
	return o.label(name, r)
}

func (o *observer) label(name string, r result) labels {
	attributes := make([]attribute.KeyValue, 0, 4)
	with := func(key attribute.Key, value string) {
		if value != "" {
			attributes = append(attributes, key.String(value))
		}
	}
	with("fairlock.kind", o.kind)
	with("fairlock.outcome", r.outcome)
	with(semconv.ErrorTypeKey, r.errorType)
	if o.names {
		with("fairlock.name", name)
	}
	set := metric.WithAttributeSet(attribute.NewSet(attributes...))
	return labels{[]metric.AddOption{set}, []metric.RecordOption{set}, trace.WithAttributes(attributes...)}
}
