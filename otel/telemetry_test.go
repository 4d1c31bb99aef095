package otel

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fairlock/locks/fairlock"
)

// telemetry is an Observer with what it records.
type telemetry struct {
	fairlock.Observer
	*testing.T
	reader *sdkmetric.ManualReader
	spans  *tracetest.SpanRecorder
	ctx    context.Context // carries the span parent
	parent trace.SpanContext
}

func newTelemetry(t *testing.T, options ...Option) *telemetry {
	m := &telemetry{T: t, reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(m.reader))
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(m.spans))
	var err error
	m.Observer, err = New(append([]Option{WithMeterProvider(meters), WithTracerProvider(tracers)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	var parent trace.Span
	m.ctx, parent = tracers.Tracer("test").Start(t.Context(), "parent")
	m.parent = parent.SpanContext()
	return m
}

// point is the result of one series of a metric: count and sum of a histogram, or the value of
// another metric.
type point struct {
	attributes attribute.Set
	count      int
	value      float64
	bounds     []float64
}

// collect reads all metrics and their points.
func (m *telemetry) collect() (units map[string]string, points map[string][]point) {
	m.Helper()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &all); err != nil {
		m.Fatal(err)
	}
	units, points = map[string]string{}, map[string][]point{}
	for _, scope := range all.ScopeMetrics {
		for _, metric := range scope.Metrics {
			units[metric.Name] = metric.Unit
			switch data := metric.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					points[metric.Name] = append(points[metric.Name], point{attributes: p.Attributes, value: float64(p.Value)})
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					points[metric.Name] = append(points[metric.Name], point{p.Attributes, int(p.Count), p.Sum, p.Bounds}) //nolint:gosec // so many calls no test makes
				}
			default:
				m.Fatalf("%s is a %T", metric.Name, data)
			}
		}
	}
	return units, points
}

// total adds up the points of a metric with the outcome, or all points if the outcome is "".
func (m *telemetry) total(name, outcome string) (count int, value float64) {
	m.Helper()
	_, points := m.collect()
	for _, p := range points[name] {
		if got, _ := p.attributes.Value("fairlock.outcome"); outcome == "" || got.AsString() == outcome {
			count += p.count
			value += p.value
		}
	}
	return count, value
}

// value returns the total of a counter.
func (m *telemetry) value(name string) int {
	m.Helper()
	_, value := m.total(name, "")
	return int(value)
}

// attributes returns all recorded attributes: those of the points, then those of the spans.
func (m *telemetry) attributes() (all []attribute.KeyValue) {
	_, points := m.collect()
	for _, of := range points {
		for _, p := range of {
			all = append(all, p.attributes.ToSlice()...)
		}
	}
	for _, span := range m.spans.Ended() {
		all = append(all, span.Attributes()...)
	}
	return all
}
