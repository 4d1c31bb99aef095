// Package otel turns what a Locker tells its Observer into OpenTelemetry metrics and spans.
//
//	observer, err := otel.New(otel.WithKind("fair"))
//	// ...
//	locker := fairlock.New(rdb, fairlock.WithObserver(observer))
//
// # Metrics
//
//	fairlock.wait.duration   s              histogram  how long calls took, by outcome
//	fairlock.hold.duration   s              histogram  how long ownerships lasted, by outcome
//	fairlock.held            {lock}         up-down    ownerships now
//	fairlock.acquisitions    {lock}         counter    ownerships begun; a re-entry begins none
//	fairlock.lost            {lock}         counter    ownerships that ended in ErrLost
//	fairlock.queued          {call}         counter    times that a call had to wait
//	fairlock.renewals        {lock}         counter    leases prolonged
//	fairlock.passed_over     {call}         counter    waiters that had to enter the line again
//	fairlock.reconnections   {reconnection} counter    times the subscription was made again
//
// Every acquisition was released, was lost or is held now: fairlock.acquisitions equals the count
// of fairlock.hold.duration plus fairlock.held. (A Lease that its program does not touch after
// closing the Locker stays in fairlock.held: the closed Locker does not notice its end.) If the
// Observer is too slow, events are dropped, and the log says so with their number, untold. From
// then on fairlock.held may be wrong, until the process ends. There is no metric for the number of
// calls that wait now. A call counts as queued when the server gives it a place, but the event of
// its end does not tell whether it had a place. A call that loses its lock before it has a Lease
// joins the line anew, and counts again.
//
// The constructors of the modules in integrations/ try their options by a call whose context has
// ended. It sends nothing, and is a fairlock.wait of no time with outcome canceled.
//
// # Spans
//
//	fairlock.wait   every call that is no re-entry, and re-entries that fail: from the call to its
//	                outcome
//	fairlock.hold   every ownership, from its acquisition to its end
//
// Both are of kind internal and are made when they have ended. A span is a child of the span in the
// context of the call, or a root if the context has none.
//
// If something is broken, error.type says what; the status of the span is Error, and the span
// records the error. A busy lock and a caller that gives up are not errors.
//
// # Attributes
//
//	fairlock.kind     all              the kind given to WithKind
//	fairlock.name     all of one lock  the name of the lock, after WithLockName
//	fairlock.outcome  wait             acquired, held, full, canceled, timeout, closed, evicted,
//	                                   error
//	                  hold             released, lost, unconfirmed: the server may keep the lock
//	                                   until its lease ends
//	error.type        wait, hold       of error, lost and unconfirmed: lost, not_replicated, the
//	                                   code of the server's answer (OOM, READONLY, ...),
//	                                   unreachable (a majority of a quorum), invalid (the call), or
//	                                   else the type of the error, as *net.OpError
//	fairlock.token    spans            the fencing token, if there is one
//	fairlock.owner    spans            the owner, after WithLockOwner
//
// "wait" and "hold" are the histogram and the span of that name. The outcome held comes from
// TryLock and from WaitAtMost. The outcome timeout comes from the deadline of a context, and from
// WaitAtMost if the server did not answer.
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

// scope is the name of the meter and of the tracer.
const scope = "github.com/fairlock/locks/otel"

// observer has no state beyond what New made.
type observer struct {
	settings
	instruments
	tracer trace.Tracer
	ready  map[result]labels
}

// New returns an Observer for any number of Lockers. Observe blocks no longer than the providers
// do: have a batch processor export the spans.
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

// ended records the duration and the span of a call or an ownership.
func (o *observer) ended(e fairlock.Event, span string, h metric.Float64Histogram, r result) {
	l := o.labels(e.Name, r)
	h.Record(e.Context, e.Took.Seconds(), l.record...)
	o.span(e, span, r, l)
}

// labels has the same attributes in the forms that the instruments and the tracer take.
type labels struct {
	add    []metric.AddOption
	record []metric.RecordOption
	start  trace.SpanStartOption
}

// labels returns the attributes. Those of common results are made once. Rare ones are made each
// time, and so are those with a lock name, because there may be any number of names.
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
		with("fairlock.name", valid(name))
	}
	set := metric.WithAttributeSet(attribute.NewSet(attributes...))
	return labels{[]metric.AddOption{set}, []metric.RecordOption{set}, trace.WithAttributes(attributes...)}
}
