package grpclock_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/locktest"
	"github.com/fairlock/locks/integrations/grpclock"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// orders is a service that everybody has at hand: a call of Check is one for the order that it
// names as its service.
type orders struct {
	healthpb.UnimplementedHealthServer
	check func(ctx context.Context, order string) error
}

func (o *orders) Check(ctx context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	token := strconv.FormatInt(grpclock.Token(ctx), 10)
	if err := grpc.SetHeader(ctx, metadata.Pairs("token", token)); err != nil {
		return nil, err
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, o.check(ctx, r.GetService())
}

func byOrder(_ context.Context, request any, _ *grpc.UnaryServerInfo) string {
	return request.(*healthpb.HealthCheckRequest).GetService()
}

func nothing(context.Context, string) error { return nil }

// serve runs a server with the interceptor and returns a client of it.
func serve(t *testing.T, l fairlock.Interface, o grpclock.Options, check func(context.Context, string) error) healthpb.HealthClient {
	t.Helper()
	interceptor, err := grpclock.UnaryServerInterceptor(l, byOrder, o)
	world.Must(t, err)
	return connect(t, check, grpc.ChainUnaryInterceptor(interceptor))
}

func connect(t *testing.T, check func(context.Context, string) error, options ...grpc.ServerOption) healthpb.HealthClient {
	t.Helper()
	server := grpc.NewServer(options...)
	healthpb.RegisterHealthServer(server, &orders{check: check})
	listener := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///orders", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	world.Must(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		world.Must(t, <-served)
	})
	return healthpb.NewHealthClient(conn)
}

// outcome is what a client is told.
type outcome struct {
	token int64
	err   error
}

func call(ctx context.Context, client healthpb.HealthClient, order string) outcome {
	var header metadata.MD
	_, err := client.Check(ctx, &healthpb.HealthCheckRequest{Service: order}, grpc.Header(&header))
	token := int64(-1)
	if tokens := header.Get("token"); len(tokens) == 1 {
		token, _ = strconv.ParseInt(tokens[0], 10, 64)
	}
	return outcome{token, err}
}

// send calls in the background.
func send(ctx context.Context, client healthpb.HealthClient, order string) <-chan outcome {
	outcomes := make(chan outcome, 1)
	go func() { outcomes <- call(ctx, client, order) }()
	return outcomes
}

// retryDelay is what a status says about trying again; 0: nothing.
func retryDelay(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

func TestCallsForOneKeyAreServedOneAtATimeInTheOrderInWhichTheyCameOnAllHosts(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		var busy, overlaps atomic.Int32
		check := func(context.Context, string) error {
			if busy.Add(1) != 1 {
				overlaps.Add(1)
			}
			busy.Add(-1)
			return nil
		}
		hosts := []healthpb.HealthClient{
			serve(t, world.Host(t, addr), grpclock.Options{}, check), serve(t, world.Host(t, addr), grpclock.Options{}, check),
		}
		admin := world.Host(t, addr)
		gate, err := admin.Lock(t.Context(), "42")
		world.Must(t, err)
		var all []<-chan outcome
		for n := range 4 {
			all = append(all, send(t.Context(), hosts[n%2], "42"))
			world.UntilWaiting(t, admin, "42", n+1)
		}
		if o := call(t.Context(), hosts[0], "43"); o.err != nil {
			t.Errorf("a call for another key was told %v", o.err)
		}
		tokens := []int64{gate.Token()}
		world.Must(t, gate.Unlock(t.Context()))
		for _, one := range all {
			o := <-one
			world.Must(t, o.err)
			tokens = append(tokens, o.token)
		}
		if !slices.IsSorted(tokens) || overlaps.Load() != 0 {
			t.Errorf("tokens %v; %d calls for one key were served beside another", tokens, overlaps.Load())
		}
	})
}

func TestACallForWhichThereIsNoRoomIsToldWhenToComeBack(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin := world.Host(t, addr)
		gate, err := admin.Lock(t.Context(), "42")
		world.Must(t, err)
		var why atomic.Value
		bounded := serve(t, world.Host(t, addr), grpclock.Options{
			Lock: []fairlock.LockOption{fairlock.MaxWaiters(1)}, RetryDelay: 1200 * time.Millisecond,
			OnRefused: func(_ context.Context, _ *grpc.UnaryServerInfo, err error) { why.Store(err) },
		}, nothing)
		hurried := serve(t, world.Host(t, addr), grpclock.Options{Lock: []fairlock.LockOption{fairlock.WaitAtMost(0)}}, nothing)
		waits := send(t.Context(), bounded, "42")
		world.UntilWaiting(t, admin, "42", 1)
		if o := call(t.Context(), bounded, "42"); status.Code(o.err) != codes.ResourceExhausted || retryDelay(o.err) != 1200*time.Millisecond {
			t.Errorf("who found the line full was told %v", o.err)
		}
		if err, _ := why.Load().(error); !errors.Is(err, fairlock.ErrQueueFull) {
			t.Errorf("the log was told %v", err)
		}
		if o := call(t.Context(), hurried, "42"); status.Code(o.err) != codes.ResourceExhausted || retryDelay(o.err) != time.Second {
			t.Errorf("whose time was over was told %v", o.err)
		}
		world.Must(t, gate.Unlock(t.Context()))
		if o := <-waits; o.err != nil {
			t.Errorf("who waited was told %v", o.err)
		}
	})
}

func TestAClientThatGivesUpLeavesTheLine(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin := world.Host(t, addr)
		gate, err := admin.Lock(t.Context(), "42")
		world.Must(t, err)
		defer func() { world.Must(t, gate.Unlock(t.Context())) }()
		refused := make(chan error, 1)
		client := serve(t, world.Host(t, addr), grpclock.Options{
			OnRefused: func(_ context.Context, _ *grpc.UnaryServerInfo, err error) { refused <- err },
		}, nothing)
		ctx, giveUp := context.WithCancel(t.Context())
		answer := send(ctx, client, "42")
		world.UntilWaiting(t, admin, "42", 1)
		giveUp()
		if o := <-answer; status.Code(o.err) != codes.Canceled {
			t.Errorf("who gave up was told %v", o.err)
		}
		if err := <-refused; !errors.Is(err, context.Canceled) {
			t.Errorf("the log was told %v", err)
		}
		world.UntilWaiting(t, admin, "42", 0)
	})
}

func TestACallThatEndsInLineEndsAsItsContextDid(t *testing.T) {
	interceptor, err := grpclock.UnaryServerInterceptor(world.Host(t, "127.0.0.1:1"), byOrder, grpclock.Options{})
	world.Must(t, err)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	for want, ctx := range map[codes.Code]context.Context{codes.Canceled: cancelled, codes.DeadlineExceeded: late} {
		_, err := interceptor(ctx, &healthpb.HealthCheckRequest{Service: "42"}, &grpc.UnaryServerInfo{},
			func(context.Context, any) (any, error) {
				t.Error("it is served")
				return nil, nil
			})
		if status.Code(err) != want {
			t.Errorf("%v, not %v", err, want)
		}
	}
}

func TestACallWhoseLockIsLostIsAborted(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin := world.Host(t, addr)
		its := status.Error(codes.FailedPrecondition, "the store refused the token")
		for what, c := range map[string]struct {
			says error
			want codes.Code
		}{
			"says nothing":            {nil, codes.Aborted},
			"says that it was told":   {context.Canceled, codes.Aborted},
			"says so as a status":     {status.FromContextError(context.Canceled).Err(), codes.Aborted},
			"says something else":     {its, codes.FailedPrecondition},
			"says that it lost":       {fairlock.ErrLost, codes.Aborted},
			"says something unstated": {errors.New("oh"), codes.Unknown},
		} {
			losses := make(chan error, 2)
			options := grpclock.Options{Lost: func(_ context.Context, _ *grpc.UnaryServerInfo, err error) { losses <- err }}
			client := serve(t, world.Host(t, addr), options, func(ctx context.Context, order string) error {
				return errors.Join(admin.ForceUnlock(context.WithoutCancel(ctx), order), c.says)
			})
			if c.says == its { // Join would hide the status
				client = serve(t, world.Host(t, addr), options, func(ctx context.Context, order string) error {
					_ = admin.ForceUnlock(context.WithoutCancel(ctx), order)
					return c.says
				})
			}
			if o := call(t.Context(), client, what); status.Code(o.err) != c.want {
				t.Errorf("a handler that %s: %v", what, o.err)
			}
			if err := world.Next(t, losses); !errors.Is(err, fairlock.ErrLost) {
				t.Errorf("of a handler that %s is told %v", what, err)
			}
		}
	})
}

func TestAHandlersContextEndsWhenItsLockIsLost(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin := world.Host(t, addr)
		cause := make(chan error, 1)
		client := serve(t, world.Host(t, addr, fairlock.WithLease(world.CalmLease)), grpclock.Options{}, func(ctx context.Context, _ string) error {
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return ctx.Err()
		})
		answer := send(t.Context(), client, "42")
		world.UntilHeld(t, admin, "42", true)
		world.Must(t, admin.ForceUnlock(t.Context(), "42"))
		if err := <-cause; !errors.Is(err, fairlock.ErrLost) {
			t.Errorf("the handler was told %v", err)
		}
		if o := <-answer; status.Code(o.err) != codes.Aborted {
			t.Errorf("the client was told %v", o.err)
		}
	})
}

func TestACallThatBreaksOffBecauseTheLockerIsClosedIsAborted(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		its := status.Error(codes.FailedPrecondition, "half of it is done")
		for what, c := range map[string]struct {
			says func(context.Context) error
			want codes.Code
		}{
			"says that its context ended": {context.Context.Err, codes.Aborted},
			"says why":                    {context.Cause, codes.Aborted},
			"says so as a status": {func(ctx context.Context) error {
				return status.FromContextError(ctx.Err()).Err()
			}, codes.Aborted},
			"says something else": {func(context.Context) error { return its }, codes.FailedPrecondition},
			"is done":             {func(context.Context) error { return nil }, codes.OK},
		} {
			l, serves := world.Host(t, addr), make(chan struct{})
			client := serve(t, l, grpclock.Options{}, func(ctx context.Context, _ string) error {
				close(serves)
				<-ctx.Done()
				return c.says(ctx)
			})
			answer := send(t.Context(), client, what)
			world.Next(t, serves)
			world.Must(t, l.Close())
			if o := world.Next(t, answer); status.Code(o.err) != c.want {
				t.Errorf("a handler that %s: %v", what, o.err)
			}
		}
	})
}

func TestAServerThatIsAwayAndALockerThatIsClosedAreUnavailable(t *testing.T) {
	s := redistest.Start(t)
	away, closed := world.Host(t, s.Addr()), world.Host(t, s.Addr())
	_ = closed.Close()
	clients := map[string]healthpb.HealthClient{
		"away": serve(t, away, grpclock.Options{}, nothing), "closed": serve(t, closed, grpclock.Options{}, nothing),
	}
	s.Kill()
	for name, client := range clients {
		if o := call(t.Context(), client, "42"); status.Code(o.err) != codes.Unavailable || retryDelay(o.err) != time.Second {
			t.Errorf("%s: %v", name, o.err)
		}
	}
}

func TestANameThatIsNoneIsTheClientsFaultAndAnEmptyOneNeedsNoLock(t *testing.T) {
	client := serve(t, world.Host(t, "127.0.0.1:1"), grpclock.Options{}, nothing) // no server is asked
	if o := call(t.Context(), client, strings.Repeat("x", 3000)); status.Code(o.err) != codes.InvalidArgument {
		t.Errorf("a name that is too long: %v", o.err)
	}
	if o := call(t.Context(), client, ""); o.err != nil || o.token != 0 {
		t.Errorf("no name: %+v", o)
	}
}

func TestWhatMakesNoSenseIsAnErrorAtOnce(t *testing.T) {
	l := world.Host(t, "127.0.0.1:1") // nobody is asked
	for what, err := range map[string]error{
		"no Locker":       made(grpclock.UnaryServerInterceptor(nil, byOrder, grpclock.Options{})),
		"no key":          made(grpclock.UnaryServerInterceptor(l, nil, grpclock.Options{})),
		"a negative time": made(grpclock.UnaryServerInterceptor(l, byOrder, grpclock.Options{RetryDelay: -1})),
		"a lock's option": made(grpclock.UnaryServerInterceptor(l, byOrder, grpclock.Options{Lock: []fairlock.LockOption{fairlock.MaxWaiters(-1)}})),
	} {
		if !errors.Is(err, fairlock.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func made(_ grpc.UnaryServerInterceptor, err error) error { return err }

func TestAHandlerThatGaveTheLockBackAndPanicsHasLostNothing(t *testing.T) {
	told := func(_ context.Context, _ *grpc.UnaryServerInfo, err error) { t.Errorf("Lost was told %v", err) }
	with, err := grpclock.UnaryServerInterceptor(locktest.New(t), func(context.Context, any, *grpc.UnaryServerInfo) string { return "a" }, grpclock.Options{Lost: told})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if p := recover(); p != "its own" {
			t.Errorf("it panics with %v", p)
		}
	}()
	_, _ = with(t.Context(), nil, &grpc.UnaryServerInfo{}, func(ctx context.Context, _ any) (any, error) {
		if err := grpclock.Lease(ctx).Unlock(ctx); err != nil {
			t.Error(err)
		}
		panic("its own")
	})
}
