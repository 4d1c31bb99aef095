package otel

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/fairlock/locks/fairlock"
)

const (
	waitSpan = "fairlock.wait"
	holdSpan = "fairlock.hold"
)

// span makes a span that ends at the time of e.
func (o *observer) span(e fairlock.Event, name string, r result, l labels) {
	now := e.At
	if now.IsZero() {
		now = time.Now()
	}
	_, span := o.tracer.Start(e.Context, name, l.start, trace.WithTimestamp(now.Add(-e.Took)), trace.WithSpanKind(trace.SpanKindInternal))
	if !span.IsRecording() {
		span.End()
		return
	}
	ended := trace.WithTimestamp(now)
	if e.Token != 0 {
		span.SetAttributes(attribute.Int64("fairlock.token", e.Token))
	}
	if o.owners && e.Owner != "" {
		span.SetAttributes(attribute.String("fairlock.owner", e.Owner))
	}
	if r.errorType != "" && e.Err != nil {
		span.SetStatus(codes.Error, e.Err.Error())
		span.RecordError(e.Err, ended)
	}
	span.End(ended)
}
