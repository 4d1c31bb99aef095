package lua

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(tests{m}) }

// tests stops the shared servers before goleak looks.
type tests struct{ *testing.M }

func (m tests) Run() int {
	code := m.M.Run()
	for _, clean := range slices.Backward(shared.cleanups) {
		clean()
	}
	return code
}

// shared has the real servers that all tests of the package use, one after the other. So no test is
// parallel.
var shared struct {
	single, cluster *redistest.Server
	cleanups        []func()
}

func single(t *testing.T) *redistest.Server {
	if shared.single == nil {
		shared.single = redistest.Start(forPackage{t})
	}
	return shared.single
}

func cluster(t *testing.T) *redistest.Server {
	if shared.cluster == nil {
		shared.cluster = redistest.StartCluster(forPackage{t})
	}
	return shared.cluster
}

// forPackage is a TB for what outlives the first test that needs it.
type forPackage struct{ testing.TB }

func (p forPackage) Cleanup(f func()) { shared.cleanups = append(shared.cleanups, f) }

func (p forPackage) TempDir() string {
	dir, err := os.MkdirTemp("", "lua")
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = os.RemoveAll(dir) }) // a directory that stays does no harm
	return dir
}

// clusterClient returns a client that treats the server as a cluster.
func clusterClient(t *testing.T, s *redistest.Server, mutate ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	opts := &redis.ClusterOptions{Addrs: []string{s.Addr()}}
	for _, change := range mutate {
		change(opts)
	}
	c := redis.NewClusterClient(opts)
	t.Cleanup(func() { _ = c.Close() }) // nothing depends on how a connection ends
	return c
}

const scriptUser, anyPassword = "scripts", "any"

// declared makes the server refuse a script any key that its call does not declare, on whatever
// branch the script needs the key. The clients of the server log in as scriptUser.
type declared struct{ admin redis.UniversalClient }

func (d declared) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d declared) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := d.declare(ctx, cmds...); err != nil {
			return err
		}
		return next(ctx, cmds)
	}
}

func (d declared) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := d.declare(ctx, cmd); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

// declare allows the keys of scripts, if there are any.
func (d declared) declare(ctx context.Context, cmds ...redis.Cmder) error {
	var keys []any
	for _, cmd := range cmds {
		if args := cmd.Args(); strings.HasPrefix(cmd.Name(), "eval") {
			keys = append(keys, args[3:3+args[2].(int)]...)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	if err := d.allow(ctx, keys); err != nil {
		return fmt.Errorf("declare keys: %w", err)
	}
	return nil
}

func (d declared) allow(ctx context.Context, keys []any) error {
	rules := []any{"ACL", "SETUSER", scriptUser, "reset", "on", "nopass", "+@all", "allchannels"}
	for _, key := range keys {
		rules = append(rules, "~"+key.(string))
	}
	return d.admin.Do(ctx, rules...).Err()
}
