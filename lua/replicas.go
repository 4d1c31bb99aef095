package lua

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Replicas is how many of them must have a write, and how soon, for it to count. The zero value asks for none.
type Replicas struct {
	N      int
	Within time.Duration
}

// Confirmed is what became of a write for which Replicas were asked.
type Confirmed struct {
	Asked bool  // it was asked for
	N     int   // how many have it
	Err   error // why that could not be found out
}

// replicated sends a script and, on the same connection and in the same round trip, WAIT. An error means that the script
// failed.
func (s *Server) replicated(ctx context.Context, sc script, command []any, need Replicas) (reply []any, got Confirmed, err error) {
	if need.N == 0 {
		reply, err = s.run(ctx, sc, command)
		return reply, got, err
	}
	send := func(command []any) (any, error) {
		pipe := s.rdb.Pipeline()
		cmd := newOnce(ctx, command)
		_ = pipe.Process(ctx, cmd)
		wait := newOnce(ctx, []any{"wait", need.N, millis(need.Within)})
		_ = pipe.Process(ctx, wait)
		_, _ = pipe.Exec(ctx) // each has its error
		got.Asked = true
		got.N, got.Err = wait.Int()
		return cmd.Result()
	}
	answer, err := send(command)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		answer, err = send(sc.whole(command))
	}
	if err != nil {
		return nil, got, err
	}
	reply, err = list(answer)
	return reply, got, err
}
