package otel

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/fairlock/locks/fairlock"
)

// settings has what the Options set.
type settings struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	kind    string
	names   bool
	owners  bool
	err     error
}

// Option configures an Observer.
type Option func(*settings)

// WithMeterProvider sets where the metrics go; default the global provider.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(s *settings) {
		s.meters = p
		s.refuse(p == nil, "WithMeterProvider: the provider is nil")
	}
}

// WithTracerProvider sets where the spans go; default the global provider.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(s *settings) {
		s.tracers = p
		s.refuse(p == nil, "WithTracerProvider: the provider is nil")
	}
}

// WithKind puts fairlock.kind on everything: "fair", "plain", or another word that tells this
// Locker from others. Unset by default.
func WithKind(kind string) Option {
	return func(s *settings) {
		s.kind = kind
		s.refuse(kind == "" || valid(kind) != kind, "WithKind: the kind is empty, or not UTF-8")
	}
}

// WithLockName puts the name of the lock, as fairlock.name, on everything about one lock. Off by
// default: every name makes its own series of each metric, and providers keep all series for good
// or, past a limit, fold them into one.
func WithLockName() Option { return func(s *settings) { s.names = true } }

// WithLockOwner puts the owner, as fairlock.owner, on the spans. Off by default: it may name a
// person.
func WithLockOwner() Option { return func(s *settings) { s.owners = true } }

func (s *settings) refuse(wrong bool, why string) {
	if wrong {
		s.err = errors.Join(s.err, invalid(why))
	}
}

func invalid(why string) error { return fmt.Errorf("%w: %s", fairlock.ErrInvalid, why) }
