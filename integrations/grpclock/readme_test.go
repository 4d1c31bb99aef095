package grpclock_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/integrations/grpclock"
	"github.com/fairlock/locks/test/world"
)

func TestTheReadme(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		locker := world.Host(t, addr)
		var options []grpc.ServerOption
		build := func() error {
			//guide:grpclock.md
			byOrder, err := grpclock.UnaryServerInterceptor(locker,
				func(ctx context.Context, request any, info *grpc.UnaryServerInfo) string {
					if order := metadata.ValueFromIncomingContext(ctx, "order"); len(order) == 1 {
						return "order:" + order[0] // or from the request: request.(*pb.PayRequest).GetOrder()
					}
					return "" // needs no lock
				},
				grpclock.Options{Lock: []fairlock.LockOption{fairlock.MaxWaiters(6)}})
			if err != nil {
				return err
			}
			options = append(options, grpc.ChainUnaryInterceptor(byOrder))
			//guide:end
			return nil
		}
		world.Must(t, build())
		client := connect(t, func(ctx context.Context, order string) error {
			//guide:grpclock.md
			token := grpclock.Token(ctx) // ctx ends when the lock is lost, too
			//guide:end
			if locked := order == "42"; locked != (token > 0) {
				t.Errorf("a call for order %q has token %d", order, token)
			}
			return nil
		}, options...)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "order", "42")
		world.Must(t, call(ctx, client, "42").err)
		world.Must(t, call(t.Context(), client, "").err)
	})
}
