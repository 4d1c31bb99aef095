// Package grpclock is a gRPC interceptor that serves unary calls for the same thing one at a time,
// over all servers that use the same Redis, and first come, first served. Calls for other things
// pass meanwhile.
//
//	byOrder, err := grpclock.UnaryServerInterceptor(locker, key,
//		grpclock.Options{Lock: []fairlock.LockOption{fairlock.MaxWaiters(6)}})
//	...
//	server := grpc.NewServer(grpc.ChainUnaryInterceptor(byOrder))
//
// The handler finds its fencing token with [Token]. Its context ends when the lock is lost. A
// client that cancels its call, or whose deadline passes, leaves the line.
package grpclock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fairlock/locks/fairlock"
)

// Key gives the name of the lock that a call needs: from the request, from the metadata in ctx, or
// from info.FullMethod. A call with an empty name needs none, and is served at once.
type Key func(ctx context.Context, request any, info *grpc.UnaryServerInfo) string

// Options are what an interceptor may be told. The zero value will do.
type Options struct {
	// Lock are options of each call's call for its lock. fairlock.MaxWaiters bounds the line and
	// fairlock.WaitAtMost the waiting; there is no bound by default but the deadline of the client.
	Lock []fairlock.LockOption
	// RetryDelay is when a call that is refused may come back. Default 1 s. The server knows no
	// better: how long a lock is leased says nothing about when its holder is done.
	RetryDelay time.Duration
	// OnRefused, if there is one, is told of each call that does not come to its handler, and why:
	// the client is not told what is wrong with your Redis, but your log should be.
	OnRefused func(ctx context.Context, info *grpc.UnaryServerInfo, err error)
	// Lost, if there is one, is told of each call whose lock was lost, or not given back, while its
	// handler worked, when the handler has returned or panicked. The handler need not have heard of
	// it: a loss may be noticed only as the lock is given back.
	Lost func(ctx context.Context, info *grpc.UnaryServerInfo, err error)
}

// UnaryServerInterceptor returns an interceptor. An error says what makes no sense, and is a
// [fairlock.ErrInvalid]. A call that is refused ends with
//
//	RESOURCE_EXHAUSTED, RetryInfo  the line is full (fairlock.MaxWaiters), or it was too long
//	                               (WaitAtMost)
//	UNAVAILABLE, RetryInfo         the Redis is away, the Locker is closed, or the waiter was evicted
//	CANCELLED, DEADLINE_EXCEEDED   the call ended while it waited
//	INVALID_ARGUMENT               there is no lock of that name
//
// A call whose lock is lost while its handler works ends with ABORTED: what it did may have been
// overtaken, so the client has to look before it tries again. So does a call whose handler breaks
// off because the Locker is closed: the client has cancelled nothing. If the handler returns an
// error of its own other than that of the cancelled context, that is the answer.
func UnaryServerInterceptor(locker fairlock.Interface, key Key, options Options) (grpc.UnaryServerInterceptor, error) {
	if err := check(locker, key, options); err != nil {
		return nil, fmt.Errorf("grpclock: %w", err)
	}
	if options.RetryDelay == 0 {
		options.RetryDelay = time.Second
	}
	if options.OnRefused == nil {
		options.OnRefused = func(context.Context, *grpc.UnaryServerInfo, error) {}
	}
	if options.Lost == nil {
		options.Lost = func(context.Context, *grpc.UnaryServerInfo, error) {}
	}
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		name := key(ctx, request, info)
		if name == "" {
			return handler(ctx, request)
		}
		var reply any
		var failed, told error // told: why the handler's context ended before it returned
		served := false
		err := locker.Do(ctx, name, func(ctx context.Context, lease *fairlock.Lease) error {
			served = true
			returned := false
			defer func() {
				if !returned { // Do has no error for a handler that panics
					options.lost(ctx, info, unexpected(lease.Unlock(ctx)))
				}
			}()
			reply, failed = handler(context.WithValue(ctx, leaseKey{}, lease), request)
			told, returned = context.Cause(ctx), true
			return nil
		}, options.Lock...)
		if served {
			options.lost(ctx, info, err)
		}
		switch {
		case !served:
			options.OnRefused(ctx, info, err)
			return nil, options.refused(ctx, err)
		case errors.Is(err, fairlock.ErrLost) && (failed == nil || ended(failed)):
			return nil, status.Error(codes.Aborted, "the lock was lost while the call was served")
		case errors.Is(told, fairlock.ErrClosed) && failed != nil && ended(failed):
			return nil, status.Error(codes.Aborted, "the server stopped while the call was served")
		default:
			return reply, failed
		}
	}, nil
}

func (o *Options) lost(ctx context.Context, info *grpc.UnaryServerInfo, err error) {
	if err != nil {
		o.Lost(ctx, info, err)
	}
}

func check(locker fairlock.Interface, key Key, o Options) error {
	switch {
	case locker == nil:
		return fmt.Errorf("%w: the Locker is nil", fairlock.ErrInvalid)
	case key == nil:
		return fmt.Errorf("%w: there is no function for the key", fairlock.ErrInvalid)
	case o.RetryDelay < 0:
		return fmt.Errorf("%w: the delay is negative", fairlock.ErrInvalid)
	}
	// A call whose context has ended sends nothing, and says what is wrong with its options.
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := locker.Lock(done, "grpclock", o.Lock...); errors.Is(err, fairlock.ErrInvalid) {
		return err
	}
	return nil
}

// ended reports whether a handler's error is that of its context.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled ||
		errors.Is(err, fairlock.ErrLost) || errors.Is(err, fairlock.ErrClosed)
}

// refused is the status of a call that did not get its lock.
func (o *Options) refused(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, fairlock.ErrQueueFull), errors.Is(err, fairlock.ErrHeld):
		return o.later(codes.ResourceExhausted, "too many calls for the same are waiting")
	case errors.Is(err, fairlock.ErrInvalid):
		return status.Error(codes.InvalidArgument, "the lock for this call has a name that is none")
	default:
		return o.later(codes.Unavailable, "the lock for this call is not to be had")
	}
}

// later is a status that says when to try again.
func (o *Options) later(code codes.Code, text string) error {
	plain := status.New(code, text)
	detailed, err := plain.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(o.RetryDelay)})
	if err != nil {
		return plain.Err()
	}
	return detailed.Err()
}

type leaseKey struct{}

// Lease returns the Lease of the handler that serves the call with this context. It returns nil,
// which holds nothing, if the call needed no lock.
func Lease(ctx context.Context) *fairlock.Lease {
	lease, _ := ctx.Value(leaseKey{}).(*fairlock.Lease)
	return lease
}

// Token returns the fencing token of the handler that serves the call with this context: larger
// than that of every call for the same lock before. It returns 0 if the call needed no lock.
func Token(ctx context.Context) int64 { return Lease(ctx).Token() }

// unexpected is what came of an Unlock, unless the handler had given the lock back itself.
func unexpected(err error) error {
	if errors.Is(err, fairlock.ErrNotHeld) && !errors.Is(err, fairlock.ErrLost) {
		return nil
	}
	return err
}
