package otel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/quorum"
)

// aDay returns events of all kinds. Of three acquired locks one is released, one is lost and one
// stays held.
func aDay(ctx context.Context) []fairlock.Event {
	of := func(kind fairlock.Kind, took time.Duration, err error) fairlock.Event {
		return fairlock.Event{Kind: kind, Context: ctx, Name: "secret", Owner: "somebody", Token: 7, Took: took, Err: err}
	}
	return []fairlock.Event{
		of(fairlock.Queued, 0, nil),
		of(fairlock.Acquired, 2*time.Second, nil),
		of(fairlock.GaveUp, 3*time.Second, fairlock.ErrQueueFull),
		of(fairlock.Released, 4*time.Second, nil),
		of(fairlock.Acquired, 5*time.Second, nil),
		of(fairlock.Lost, 6*time.Second, fmt.Errorf("%w: gone", fairlock.ErrLost)),
		of(fairlock.Acquired, 7*time.Second, nil),
		{Kind: fairlock.Renewed, Locks: 8},
		{Kind: fairlock.PassedOver, Name: "secret", Owner: "somebody"},
		{Kind: fairlock.Reconnected},
	}
}

func TestEveryEventIsCountedOnce(t *testing.T) {
	m := newTelemetry(t)
	for _, e := range aDay(m.ctx) {
		m.Observe(e)
	}
	for name, want := range map[string]int{
		"fairlock.queued": 1, "fairlock.acquisitions": 3, "fairlock.held": 1, "fairlock.lost": 1, "fairlock.renewals": 8,
		"fairlock.passed_over": 1, "fairlock.reconnections": 1,
	} {
		if got := m.value(name); got != want {
			t.Errorf("%s is %d, not %d", name, got, want)
		}
	}
	for _, want := range []struct {
		name, outcome string
		count         int
		sum           float64
	}{
		{"fairlock.wait.duration", "", 4, 17},
		{"fairlock.wait.duration", acquired, 3, 14},
		{"fairlock.wait.duration", full, 1, 3},
		{"fairlock.hold.duration", "", 2, 10},
		{"fairlock.hold.duration", released, 1, 4},
		{"fairlock.hold.duration", lost, 1, 6},
	} {
		if count, sum := m.total(want.name, want.outcome); count != want.count || sum != want.sum {
			t.Errorf("%s, outcome %q: %d in %v s, not %d in %v s", want.name, want.outcome, count, sum, want.count, want.sum)
		}
	}
}

func TestWhatHappensUnderAContextThatHasEndedIsCounted(t *testing.T) {
	m := newTelemetry(t)
	ctx, cancel := context.WithCancel(m.ctx)
	cancel()
	for _, e := range aDay(ctx) {
		m.Observe(e)
	}
	if got, spans := m.value("fairlock.acquisitions"), len(m.spans.Ended()); got != 3 || spans != 6 {
		t.Errorf("%d acquisitions and %d spans", got, spans)
	}
}

func TestThePackageCommentListsEveryMetricSpanAndAttribute(t *testing.T) {
	source, err := os.ReadFile("otel.go")
	if err != nil {
		t.Fatal(err)
	}
	comment, _, _ := strings.Cut(string(source), "\npackage ")
	listed := func(words ...string) {
		t.Helper()
		for line := range strings.Lines(comment) {
			if fields := strings.Fields(line); len(fields) > len(words) && slices.Equal(fields[1:len(words)+1], words) {
				return
			}
		}
		t.Errorf("the comment has no line for %q", words)
	}
	m := newTelemetry(t, WithKind("fair"), WithLockName(), WithLockOwner())
	for _, e := range aDay(m.ctx) {
		m.Observe(e)
	}
	units, points := m.collect()
	for name, unit := range units {
		listed(name, unit)
		if len(points[name]) == 0 {
			t.Errorf("%s was not recorded", name)
		}
	}
	for _, span := range m.spans.Ended() {
		listed(span.Name())
	}
	for _, a := range m.attributes() {
		listed(string(a.Key))
	}
	if len(units) != 9 {
		t.Errorf("%d metrics", len(units))
	}
}

func TestTheBucketsSuitLocksFromARoundTripToMinutes(t *testing.T) {
	m := newTelemetry(t)
	for _, e := range aDay(m.ctx) {
		m.Observe(e)
	}
	_, points := m.collect()
	for _, name := range []string{"fairlock.wait.duration", "fairlock.hold.duration"} {
		got := points[name][0].bounds
		if len(got) == 0 || !slices.IsSorted(got) || got[0] != 0.0001 || got[len(got)-1] != 600 {
			t.Errorf("%s has the bounds %v", name, got)
		}
	}
}

func TestACallThatEndedWithoutTheLockSaysWhy(t *testing.T) {
	live := t.Context()
	ended, cancel := context.WithCancelCause(live)
	cancel(fairlock.ErrClosed)
	late, stop := context.WithDeadline(live, time.Now())
	defer stop()
	gone, leave := context.WithCancelCause(live)
	leave(&net.OpError{Op: "read", Err: io.EOF})
	// The timeout error of a dial looks like the error of a context's deadline.
	_, dial := (&net.Dialer{Deadline: time.Now().Add(-time.Second)}).Dial("tcp", "127.0.0.1:1")
	if !errors.Is(dial, context.DeadlineExceeded) {
		t.Fatal(dial)
	}
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want result
	}{
		{live, &fairlock.HeldError{Owner: "somebody"}, result{held, ""}},
		{ended, &fairlock.HeldError{Owner: "somebody"}, result{held, ""}},
		{live, fairlock.ErrQueueFull, result{full, ""}},
		{live, fairlock.ErrEvicted, result{evicted, ""}},
		{live, fairlock.ErrClosed, result{closed, ""}},
		{ended, &fairlock.WaitError{Err: errors.Join(ended.Err(), context.Cause(ended))}, result{canceled, ""}},
		{ended, errors.Join(ended.Err(), context.Cause(ended)), result{canceled, ""}},
		{late, &fairlock.WaitError{Err: errors.Join(late.Err(), context.Cause(late))}, result{timeout, ""}},
		{live, &fairlock.WaitError{Err: context.DeadlineExceeded}, result{timeout, ""}},
		{live, dial, result{failed, "*net.OpError"}},
		{ended, fmt.Errorf("the handshake: %w", context.DeadlineExceeded), result{failed, "context.deadlineExceededError"}},
		{ended, dial, result{failed, "*net.OpError"}}, // since the call returned
		{late, dial, result{failed, "*net.OpError"}},
		{gone, errors.Join(gone.Err(), context.Cause(gone)), result{canceled, ""}},
		{live, fmt.Errorf("%w: 1 of 2", fairlock.ErrNotReplicated), result{failed, "not_replicated"}},
		{live, fmt.Errorf("%w: gone", fairlock.ErrLost), result{failed, lost}},
		{live, fmt.Errorf("wrapped: %w", serverSays("OOM command not allowed")), result{failed, "OOM"}},
		{live, serverSays("user_script:12: bad"), result{failed, "ERR"}},
		{live, fmt.Errorf("wrapped: %w", io.EOF), result{failed, "*errors.errorString"}},
	} {
		m := newTelemetry(t)
		m.Observe(fairlock.Event{Kind: fairlock.GaveUp, Context: c.ctx, Took: time.Second, Err: c.err})
		_, points := m.collect()
		var attributes []attribute.KeyValue
		if c.want.errorType != "" {
			attributes = append(attributes, attribute.String("error.type", c.want.errorType))
		}
		attributes = append(attributes, attribute.String("fairlock.outcome", c.want.outcome))
		if got := points["fairlock.wait.duration"][0].attributes.ToSlice(); !slices.Equal(got, attributes) {
			t.Errorf("%v: %v, not %v", c.err, got, attributes)
		}
	}
}

// The library wraps the errors of its requests in types of its own, which would say nothing.
func TestTheTypeOfAnErrorIsNoneOfTheLibrarys(t *testing.T) {
	nowhere := func(port int) *redis.Client {
		rdb := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port), MaxRetries: -1, DialerRetries: 1})
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	for want, call := range map[string]func(context.Context, fairlock.Observer) error{
		"*net.OpError": func(ctx context.Context, o fairlock.Observer) error {
			locker := fairlock.New(nowhere(1), fairlock.WithObserver(o))
			defer locker.Close()
			_, err := locker.TryLock(ctx, "x")
			return err
		},
		"invalid": func(ctx context.Context, o fairlock.Observer) error {
			locker := fairlock.New(nowhere(1), fairlock.WithObserver(o))
			defer locker.Close()
			_, err := locker.TryLock(ctx, "")
			return err
		},
		"unreachable": func(ctx context.Context, o fairlock.Observer) error {
			locker := quorum.New([]redis.UniversalClient{nowhere(1), nowhere(2), nowhere(3)}, quorum.WithObserver(o))
			defer locker.Close()
			_, err := locker.TryLock(ctx, "x")
			return err
		},
	} {
		m := newTelemetry(t)
		err := call(t.Context(), m.Observer)
		_, points := m.collect()
		waits := points["fairlock.wait.duration"]
		if len(waits) != 1 {
			t.Fatalf("%v: %d series", err, len(waits))
		}
		if got, _ := waits[0].attributes.Value("error.type"); got.AsString() != want {
			t.Errorf("%v has the type %q, not %q", err, got.AsString(), want)
		}
	}
}

// serverSays is an error answer of the server.
type serverSays string

var _ redis.Error = serverSays("")

func (s serverSays) Error() string { return string(s) }
func (serverSays) RedisError()     {}

func TestASpanLiesWhereItsWaitOrHoldLay(t *testing.T) {
	m := newTelemetry(t)
	before := time.Now()
	events := aDay(m.ctx)
	events = slices.DeleteFunc(events, func(e fairlock.Event) bool { return e.Took == 0 })
	for _, e := range events {
		m.Observe(e)
	}
	spans := m.spans.Ended()
	if len(spans) != len(events) {
		t.Fatalf("%d spans of %d events", len(spans), len(events))
	}
	for i, e := range events {
		span, name := spans[i], holdSpan
		if e.Kind == fairlock.Acquired || e.Kind == fairlock.GaveUp {
			name = waitSpan
		}
		if span.Name() != name || span.SpanKind() != trace.SpanKindInternal || span.Parent().SpanID() != m.parent.SpanID() {
			t.Errorf("%v: a span %q of kind %v under %v", e.Kind, span.Name(), span.SpanKind(), span.Parent().SpanID())
		}
		if end := span.EndTime(); end.Before(before) || end.After(time.Now()) || end.Sub(span.StartTime()) != e.Took {
			t.Errorf("%v: a span from %v to %v, not of %v", e.Kind, span.StartTime(), end, e.Took)
		}
		if !slices.Contains(span.Attributes(), attribute.Int64("fairlock.token", e.Token)) {
			t.Errorf("%v: the span has %v, not the token", e.Kind, span.Attributes())
		}
	}
}

func TestASpanIsAnErrorOnlyWhereSomethingIsBroken(t *testing.T) {
	for kind, errs := range map[fairlock.Kind]map[error]bool{
		fairlock.Acquired: {nil: false},
		fairlock.GaveUp:   {fairlock.ErrHeld: false, fairlock.ErrQueueFull: false, fairlock.ErrClosed: false, io.EOF: true},
		fairlock.Released: {nil: false, io.EOF: true},
		fairlock.Lost:     {fairlock.ErrLost: true},
	} {
		for err, broken := range errs {
			m := newTelemetry(t)
			m.Observe(fairlock.Event{Kind: kind, Context: m.ctx, Err: err})
			span := m.spans.Ended()[0]
			hasType := slices.ContainsFunc(span.Attributes(), func(a attribute.KeyValue) bool { return a.Key == "error.type" })
			if (span.Status().Code == codes.Error) != broken || len(span.Events()) == 1 != broken || hasType != broken {
				t.Errorf("%v, %v: status %v, %d events, error.type: %v", kind, err, span.Status(), len(span.Events()), hasType)
			}
			if broken && span.Status().Description != err.Error() {
				t.Errorf("%v: the status says %q", err, span.Status().Description)
			}
		}
	}
}

func TestAReleaseThatTheServerDidNotConfirmIsNoLockHeld(t *testing.T) {
	m := newTelemetry(t)
	m.Observe(fairlock.Event{Kind: fairlock.Acquired, Context: m.ctx})
	m.Observe(fairlock.Event{Kind: fairlock.Released, Context: m.ctx, Err: io.EOF})
	if count, _ := m.total("fairlock.hold.duration", unconfirmed); count != 1 || m.value("fairlock.held") != 0 {
		t.Errorf("%d unconfirmed, %d held", count, m.value("fairlock.held"))
	}
}

func TestNamesAndOwnersAreToldOnlyOnRequest(t *testing.T) {
	for _, c := range []struct {
		options     []Option
		name, owner bool
	}{
		{nil, false, false},
		{[]Option{WithLockName()}, true, false},
		{[]Option{WithLockOwner()}, false, true},
	} {
		m := newTelemetry(t, c.options...)
		for _, e := range aDay(m.ctx) {
			m.Observe(e)
		}
		all := m.attributes()
		has := func(key, value string) bool { return slices.Contains(all, attribute.String(key, value)) }
		says := func(value string) bool {
			return slices.ContainsFunc(all, func(a attribute.KeyValue) bool { return strings.Contains(a.Value.String(), value) })
		}
		if has("fairlock.name", "secret") != c.name || says("secret") != c.name {
			t.Errorf("%+v: the name is among %v: %v", c, all, !c.name)
		}
		if has("fairlock.owner", "somebody") != c.owner || says("somebody") != c.owner {
			t.Errorf("%+v: the owner is among %v: %v", c, all, !c.owner)
		}
	}
}

func TestWhatIsToldIsTextThatEveryExporterTakes(t *testing.T) {
	m := newTelemetry(t, WithLockName(), WithLockOwner())
	for _, e := range aDay(m.ctx) {
		e.Name, e.Owner = "order:\xff", "a\xff"
		if e.Err != nil {
			e.Err = fmt.Errorf("lock \xff: %w", e.Err)
		}
		m.Observe(e)
	}
	for _, a := range m.attributes() {
		if !utf8.ValidString(a.Value.String()) {
			t.Errorf("%s is %q", a.Key, a.Value.String())
		}
	}
	for _, span := range m.spans.Ended() {
		texts := []string{span.Status().Description}
		for _, e := range span.Events() {
			for _, a := range e.Attributes {
				texts = append(texts, a.Value.String())
			}
		}
		if !utf8.ValidString(strings.Join(texts, "")) {
			t.Errorf("%s says %q", span.Name(), texts)
		}
	}
}

func TestANameThatIsToldIsOnEverythingAboutItsLockAndNothingElse(t *testing.T) {
	m := newTelemetry(t, WithLockName())
	for _, e := range aDay(m.ctx) {
		m.Observe(e)
	}
	_, points := m.collect()
	for name, of := range points {
		about := name != "fairlock.renewals" && name != "fairlock.reconnections"
		for _, p := range of {
			if p.attributes.HasValue("fairlock.name") != about {
				t.Errorf("%s has %v", name, p.attributes.ToSlice())
			}
		}
	}
}

func TestTheKindIsOnEverything(t *testing.T) {
	m := newTelemetry(t, WithKind("fair"))
	for _, e := range aDay(m.ctx) {
		m.Observe(e)
	}
	kind := attribute.String("fairlock.kind", "fair")
	_, points := m.collect()
	for name, of := range points {
		for _, p := range of {
			if !slices.Contains(p.attributes.ToSlice(), kind) {
				t.Errorf("%s has %v", name, p.attributes.ToSlice())
			}
		}
	}
	for _, span := range m.spans.Ended() {
		if !slices.Contains(span.Attributes(), kind) {
			t.Errorf("%s has %v", span.Name(), span.Attributes())
		}
	}
}

func TestTheGlobalProvidersAreTheDefault(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	defer otel.SetMeterProvider(noopmetric.NewMeterProvider())
	observer, err := New()
	if err != nil {
		t.Fatal(err)
	}
	m := &telemetry{T: t, Observer: observer, reader: reader}
	m.Observe(fairlock.Event{Kind: fairlock.Reconnected})
	if got := m.value("fairlock.reconnections"); got != 1 {
		t.Errorf("%d reconnections", got)
	}
}

func TestOptionsThatMakeNoSenseAreRefusedTogether(t *testing.T) {
	observer, err := New(WithMeterProvider(nil), WithTracerProvider(nil), WithKind(""), nil)
	if observer != nil || !errors.Is(err, fairlock.ErrInvalid) {
		t.Fatalf("%v, %v", observer, err)
	}
	for _, what := range []string{"WithMeterProvider", "WithTracerProvider", "WithKind", "an Option is nil"} {
		if !strings.Contains(err.Error(), what) {
			t.Errorf("%q does not say %s", err, what)
		}
	}
	if observer, err := New(WithKind("\xff")); observer != nil || !errors.Is(err, fairlock.ErrInvalid) {
		t.Errorf("a kind that would stop all metrics: %v, %v", observer, err)
	}
}

// BenchmarkObserve measures what metrics without spans add to one uncontended lock and unlock.
func BenchmarkObserve(b *testing.B) {
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	observer, err := New(WithMeterProvider(meters), WithTracerProvider(nooptrace.NewTracerProvider()))
	if err != nil {
		b.Fatal(err)
	}
	begun := fairlock.Event{Kind: fairlock.Acquired, Context: b.Context(), Name: "x", Token: 1, Took: time.Millisecond}
	ended := fairlock.Event{Kind: fairlock.Released, Context: b.Context(), Name: "x", Token: 1, Took: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		observer.Observe(begun)
		observer.Observe(ended)
	}
}
