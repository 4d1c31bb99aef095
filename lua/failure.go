package lua

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/redact"
)

// failure is the error of a request, and all that is asked of it. Hooks, dialers and contexts may
// return errors of the user's own types, whose methods call the library or panic. So those methods
// are called once, as the error comes, while no mutex is held.
type failure struct {
	err   error
	text  string
	reply string // of the server, without "ERR "

	answered, unsent, busy bool // see Answered, Unsent and Busy
	shut, closed           bool // it is redis.ErrClosed; see Closed
	timeout                bool // the client's
	severed                bool // see Severed
	dry, kept              bool // it is errNotAtHand, or ErrKept
}

func (f *failure) Error() string { return f.text }

// Unwrap returns the error as it came: it is for the user.
func (f *failure) Unwrap() error { return f.err }

// seen returns err as an error that has been looked at.
func seen(err error) error {
	if err == nil {
		return nil
	}
	return look(err)
}

// none is what nil is looked at as.
var none failure

// look asks err, or finds what it said before.
func look(err error) *failure {
	if err == nil {
		return &none
	}
	return ask(err)
}

// ask is look, of an error that is there. Of one that panics nothing is known: its request may have
// been executed.
func ask(err error) (f *failure) {
	defer func() {
		if recover() != nil {
			f = &failure{text: "an error that panics as it is asked"} // nobody is to ask it again
		}
	}()
	if errors.As(err, &f) {
		return f
	}
	f = &failure{err: err, text: err.Error()}
	var reply redis.Error
	if errors.As(err, &reply) {
		said := reply.Error()
		f.answered, f.reply = !relayed(said), strings.TrimPrefix(said, "ERR ")
	}
	var op *net.OpError
	var network net.Error
	f.busy = errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
	f.shut = errors.Is(err, redis.ErrClosed)
	f.unsent = f.busy || f.shut || errors.As(err, new(*tls.CertificateVerificationError)) ||
		errors.As(err, &op) && op.Op == "dial"
	f.timeout = errors.As(err, &network) && network.Timeout()
	broken := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || op != nil && (op.Op == "read" || op.Op == "write")
	f.severed = broken && !f.answered && !f.timeout
	f.dry, f.kept = errors.Is(err, errNotAtHand), errors.Is(err, ErrKept)
	return f
}

// Closed reports whether a script could not be sent because the client is closed: it never will be.
func Closed(err error) bool { return look(err).closed }

// final is the error of a script that went through the Server's own client. If that is closed, so
// it stays. A client of one node of a cluster is closed also when the cluster has lost that node.
func final(err error) error {
	f := look(err)
	if !f.shut {
		return err
	}
	f.closed = true
	return f
}

// Ended reports whether err only says that a context has ended. The caller's own context cannot be
// asked where Close waits for the request: it may be the user's, and close the Locker.
func Ended(err error) bool {
	text := look(err).text
	return text == context.Canceled.Error() || text == context.DeadlineExceeded.Error()
}

// Kept reports whether err is ErrKept.
func Kept(err error) bool { return look(err).kept }

// Says reports whether err is an answer of the server's, or of a proxy's, that begins so.
func Says(err error, prefix string) bool { return strings.HasPrefix(look(err).reply, prefix) }

// Answered reports whether err is the server's own answer, and not that of a proxy that got none.
func Answered(err error) bool { return look(err).answered }

// Unsent reports whether err came before the request could be sent: no connection could be had.
func Unsent(err error) bool { return look(err).unsent }

// Busy reports whether err says that all of the client's connections were in use.
func Busy(err error) bool { return look(err).busy }

// Severed reports whether err says that the request's connection has ended. Another one may do.
func Severed(err error) bool { return look(err).severed }

// Unanswered reports whether err leaves open if the request was executed, or will be. An error is
// definite if the server answered it, or if it came before anything could be sent.
func Unanswered(err error) bool {
	f := look(err)
	return err != nil && !f.answered && !f.unsent
}

// Redacted is a text of an error without what a server repeats of a password: see package redact.
func Redacted(text string) string { return redact.Text(text) }
