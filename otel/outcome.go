package otel

import (
	"context"
	"errors"
	"net"
	"reflect"
	"strings"

	"github.com/redis/go-redis/v9"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/quorum"
)

// result is the result of a wait or a hold. errorType is empty unless something is broken.
type result struct{ outcome, errorType string }

// The outcomes of waits, then those of holds.
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

// common has the results that occur with only one errorType. The first is for what has no outcome.
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

// waited returns the result of a call that ended with err.
func waited(ctx context.Context, err error) result {
	// A connection's error may look like a context's error, and a context's cause may be any error.
	// So only a context that has ended counts, and it counts before all else. It may have ended
	// after the call returned, by a deferred cancel: so a connection's error is none of its own.
	if errors.As(err, new(*fairlock.WaitError)) || ended(ctx, err) {
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

// ended reports whether err is that of ctx.
func ended(ctx context.Context, err error) bool {
	end := ctx.Err()
	return end != nil && errors.Is(err, end) && (!network(err) || network(context.Cause(ctx)))
}

// network reports whether err is a connection's.
func network(err error) bool {
	return errors.As(err, new(*net.OpError)) || errors.As(err, new(*net.DNSError))
}

// gaveBack returns the result of a hold whose release ended with err.
func gaveBack(err error) result {
	if err == nil {
		return result{outcome: released}
	}
	return result{unconfirmed, errorType(err)}
}

// errorType returns one of few words: ours, the server's code, or the name of a type that is not
// the library's.
func errorType(err error) string {
	var answer redis.Error
	switch {
	case errors.Is(err, fairlock.ErrLost):
		return lost
	case errors.Is(err, fairlock.ErrNotReplicated):
		return "not_replicated"
	case errors.As(err, &answer):
		return code(answer.Error())
	case errors.Is(err, quorum.ErrUnreachable):
		return "unreachable"
	case errors.Is(err, fairlock.ErrInvalid):
		return "invalid"
	}
	return semconv.ErrorType(foreign(err)).Value.AsString()
}

// foreign returns the error that the library's own are wrapped around: their types say nothing.
func foreign(err error) error {
	for {
		t := reflect.TypeOf(err)
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		inner := errors.Unwrap(err)
		if inner == nil || t.PkgPath() != "fmt" && !strings.HasPrefix(t.PkgPath(), "github.com/fairlock/locks/") {
			return err
		}
		err = inner
	}
}

// code returns the word in capitals at the beginning of a server's error, or ERR if there is none.
func code(answer string) string {
	word, _, _ := strings.Cut(answer, " ")
	if word == "" || strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return "ERR"
	}
	return word
}
