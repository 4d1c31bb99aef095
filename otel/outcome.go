package otel

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/fairlock/locks/fairlock"
)

// result is what a wait or a hold came to. errorType is empty unless something is broken.
type result struct{ outcome, errorType string }

// The outcomes, of waits and of holds.
const (
	acquired = "acquired"
	held     = "held"
	full     = "full"
	canceled = "canceled"
	timeout  = "timeout"
	closed   = "closed"
	evicted  = "evicted"
	failed   = "error"

	released    = "released"
	lost        = "lost"
	unconfirmed = "unconfirmed"
)

var hasLost = result{lost, lost}

// common are the results of which there is one of each; the first is of what has no outcome.
var common = []result{
	{},
	{outcome: acquired},
	{outcome: held},
	{outcome: full},
	{outcome: canceled},
	{outcome: timeout},
	{outcome: closed},
	{outcome: evicted},
	{outcome: released},
	hasLost,
}

// waited is the result of a call that ended with err.
func waited(ctx context.Context, err error) result {
	// A connection's errors can pass for a context's, and a context's cause for any: a context must have ended, and first.
	if ctx.Err() != nil || errors.As(err, new(*fairlock.WaitError)) {
		switch {
		case errors.Is(err, context.Canceled):
			return result{outcome: canceled}
		case errors.Is(err, context.DeadlineExceeded):
			return result{outcome: timeout}
		}
	}
	switch {
	case errors.Is(err, fairlock.ErrHeld):
		return result{outcome: held}
	case errors.Is(err, fairlock.ErrQueueFull):
		return result{outcome: full}
	case errors.Is(err, fairlock.ErrEvicted):
		return result{outcome: evicted}
	case errors.Is(err, fairlock.ErrClosed):
		return result{outcome: closed}
	}
	return result{failed, errorType(err)}
}

// gaveBack is the result of a hold whose release ended with err.
func gaveBack(err error) result {
	if err == nil {
		return result{outcome: released}
	}
	return result{unconfirmed, errorType(err)}
}

// errorType is one of few words: ours, the server's, or the name of a type.
func errorType(err error) string {
	var answer redis.Error
	switch {
	case errors.Is(err, fairlock.ErrLost):
		return lost
	case errors.Is(err, fairlock.ErrNotReplicated):
		return "not_replicated"
	case errors.As(err, &answer):
		return code(answer.Error())
	}
	return semconv.ErrorType(err).Value.AsString()
}

// code is what a server's error begins with: a word in capitals, or else it is as good as ERR.
func code(answer string) string {
	word, _, _ := strings.Cut(answer, " ")
	if word == "" || strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return "ERR"
	}
	return word
}
