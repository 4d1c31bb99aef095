// Package httplock is a net/http middleware that serves requests for the same thing one at a time,
// over all servers that use the same Redis, and first come, first served. Requests for other things
// pass meanwhile.
//
//	byOrder, err := httplock.New(locker,
//		func(r *http.Request) string { return "order:" + r.PathValue("order") },
//		httplock.Options{Lock: []fairlock.LockOption{fairlock.MaxWaiters(6)}})
//	...
//	mux.Handle("POST /orders/{order}/pay", byOrder(http.HandlerFunc(pay)))
//
// The handler finds its fencing token with [Token]. The context of its request ends when the lock
// is lost. A client that hangs up leaves the line.
package httplock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// Options are what a middleware may be told. The zero value will do.
type Options struct {
	// Lock are options of each request's call for its lock. fairlock.MaxWaiters bounds the line and
	// fairlock.WaitAtMost the waiting; there is no bound by default but the request's own context.
	// Where http.Server.WriteTimeout is set, let WaitAtMost be less than it by what the handler
	// takes: a request that waits for longer is served, and its client never gets the answer. The
	// lock is released before the answer is sent, unless the handler flushes it or writes more than
	// net/http keeps, some 2 KB: 5 s more at most, if the server of the locks has fallen silent.
	Lock []fairlock.LockOption
	// RetryAfter is when a request that is refused may come back, rounded up to whole seconds.
	// Default 1 s. The server knows no better: how long a lock is leased says nothing about when
	// its holder is done.
	RetryAfter time.Duration
	// MaxBody is the size of the largest request body, in bytes. Default 1 MiB. It does not bound
	// what the function for the key reads of the body.
	MaxBody int64
	// Refuse answers a request that does not come to its handler, for example in the format of your
	// API. err says why, for the log. By default the answer is a line of text. Refuse is called
	// with the status and the Retry-After that New tells of; Retry-After is set already.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, err error)
	// Lost, if there is one, is told of each request whose lock was lost, or not given back, while
	// its handler worked, when the handler has returned or panicked. The handler need not have heard
	// of it: a loss may be noticed only as the lock is given back. r is the request as it came.
	Lost func(r *http.Request, err error)
}

// New returns a middleware. key gives the name of the lock that a request needs; a request with an
// empty name needs none, and is served at once. An error says what makes no sense, and is a
// [fairlock.ErrInvalid].
//
// The body of a request is read before the request waits: net/http does not notice earlier that a
// client has hung up. Before that key sees the request as it came. What key reads of the body, it
// has to bound, and to put back: r.Body is what the handler gets, and what MaxBody bounds. A
// request that is refused is answered with
//
//	429, Retry-After  the line is full (fairlock.MaxWaiters), or it was too long (WaitAtMost)
//	503, Retry-After  the server is away, the Locker is closed, the waiter was evicted, or the
//	                  request's context has ended
//	413               the body is too large (MaxBody)
//	400               the body cannot be read, or there is no lock of that name
//
// Once the handler was called, the answer is the handler's. If the lock is lost meanwhile, the
// context of the handler's request ends with cause [fairlock.ErrLost], and Options.Lost is told.
func New(locker fairlock.Interface, key func(*http.Request) string, options Options) (func(http.Handler) http.Handler, error) {
	if err := check(locker, key != nil, options); err != nil {
		return nil, fmt.Errorf("httplock: %w", err)
	}
	if options.RetryAfter == 0 {
		options.RetryAfter = time.Second
	}
	if options.MaxBody == 0 {
		options.MaxBody = 1 << 20
	}
	if options.Refuse == nil {
		options.Refuse = refuse
	}
	if options.Lost == nil {
		options.Lost = func(*http.Request, error) {}
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if name := key(r); name == "" {
				next.ServeHTTP(w, r)
			} else {
				options.serve(w, r, next, locker, name)
			}
		})
	}, nil
}

func check(locker fairlock.Interface, hasKey bool, o Options) error {
	switch {
	case locker == nil:
		return fmt.Errorf("%w: the Locker is nil", fairlock.ErrInvalid)
	case !hasKey:
		return fmt.Errorf("%w: there is no function for the key", fairlock.ErrInvalid)
	case o.RetryAfter < 0 || o.MaxBody < 0:
		return fmt.Errorf("%w: an option is negative", fairlock.ErrInvalid)
	}
	// A call whose context has ended sends nothing, and says what is wrong with its options.
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := locker.Lock(ended, "httplock", o.Lock...); errors.Is(err, fairlock.ErrInvalid) {
		return err
	}
	return nil
}

func (o *Options) serve(w http.ResponseWriter, r *http.Request, next http.Handler, locker fairlock.Interface, name string) {
	var body []byte
	var err error
	if r.Body != nil { // a request that no server has read may have none
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, o.MaxBody))
	}
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		o.Refuse(w, r, status, err)
		return
	}
	served := false
	err = locker.Do(r.Context(), name, func(ctx context.Context, lease *fairlock.Lease) error {
		served = true
		its := r.WithContext(context.WithValue(ctx, leaseKey{}, lease))
		its.Body = io.NopCloser(bytes.NewReader(body))
		defer func() { // net/http does so only for the request that it made itself
			if form := its.MultipartForm; form != nil && form != r.MultipartForm {
				_ = form.RemoveAll()
			}
		}()
		returned := false
		defer func() {
			if returned {
				return
			}
			if err := unexpected(lease.Unlock(ctx)); err != nil { // Do has no error for a handler that panics
				o.Lost(r, err)
			}
		}()
		next.ServeHTTP(w, its)
		returned = true
		return nil
	}, o.Lock...)
	switch {
	case err == nil:
		return
	case served: // the handler has answered, maybe before anybody knew
		o.Lost(r, err)
		return
	}
	status := statusOf(err)
	if status != http.StatusBadRequest {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((o.RetryAfter-1)/time.Second)+1, 10))
	}
	o.Refuse(w, r, status, err)
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, fairlock.ErrQueueFull), errors.Is(err, fairlock.ErrHeld):
		return http.StatusTooManyRequests
	case errors.Is(err, fairlock.ErrInvalid):
		return http.StatusBadRequest
	default:
		return http.StatusServiceUnavailable
	}
}

// refuse is what Refuse does by default.
func refuse(w http.ResponseWriter, _ *http.Request, status int, _ error) {
	text := http.StatusText(status)
	switch status {
	case http.StatusTooManyRequests:
		text = "too many requests for the same are waiting: try again later"
	case http.StatusServiceUnavailable:
		text = "the lock for this request is not to be had: try again later"
	}
	http.Error(w, text, status)
}

type leaseKey struct{}

// Lease returns the Lease of the handler that serves the request with this context. It returns nil,
// which holds nothing, if the request needed no lock.
func Lease(ctx context.Context) *fairlock.Lease {
	lease, _ := ctx.Value(leaseKey{}).(*fairlock.Lease)
	return lease
}

// Token returns the fencing token of the handler that serves the request with this context: larger
// than that of every request for the same lock before. It returns 0 if the request needed no lock.
func Token(ctx context.Context) int64 { return Lease(ctx).Token() }

// unexpected is what came of an Unlock, unless the handler had given the lock back itself.
func unexpected(err error) error {
	if errors.Is(err, fairlock.ErrNotHeld) && !errors.Is(err, fairlock.ErrLost) {
		return nil
	}
	return err
}
