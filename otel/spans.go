package otel

import (
	"errors"
	"strings"
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
		span.SetAttributes(attribute.String("fairlock.owner", valid(e.Owner)))
	}
	if r.errorType != "" && e.Err != nil {
		text, err := e.Err.Error(), e.Err
		if sent := valid(text); sent != text {
			text, err = sent, errors.New(sent)
		}
		span.SetStatus(codes.Error, text)
		span.RecordError(err, ended)
	}
	span.End(ended)
}

// valid is text without the bytes that no exporter can send: one such name would stop all of them.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
