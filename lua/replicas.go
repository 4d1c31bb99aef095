package lua

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Replicas says which copies of a write must exist, and how soon, for the write to count. The zero
// value asks nobody.
type Replicas struct {
	N      int
	Disk   bool // the replicas, and the server itself, must have the write on disk
	Within time.Duration
}

// Asked reports whether there is anything to wait for.
func (r Replicas) Asked() bool { return r.N > 0 || r.Disk }

// command is the question that follows the write.
func (r Replicas) command() []any {
	if r.Disk {
		return []any{"waitaof", 1, r.N, millis(r.Within)}
	}
	return []any{"wait", r.N, millis(r.Within)}
}

// Confirmed is what became of a write for which Replicas were asked; nil where they were not.
type Confirmed struct {
	N    int   // how many replicas have the write
	Disk bool  // the server itself has it on disk; only known if that was asked for
	Err  error // why that could not be found out
}

// Enough reports whether c is what need asks for.
func (c Confirmed) Enough(need Replicas) bool {
	return c.Err == nil && c.N >= need.N && (c.Disk || !need.Disk)
}

// confirmed reads the answer.
func (r Replicas) confirmed(wait once) *Confirmed {
	got := new(Confirmed)
	reply, err := wait.Result()
	switch counts, _ := reply.([]any); {
	case r.Disk && Says(err, "unknown command"):
		got.Err = fmt.Errorf("the server has no WAITAOF, which came with Redis 7.2: %w", errors.ErrUnsupported)
	case err != nil:
		got.Err = err
	case len(counts) == 2:
		local, _ := counts[0].(int64)
		n, _ := counts[1].(int64)
		got.Disk, got.N = local == 1, int(n)
	default:
		n, ok := reply.(int64)
		if got.N = int(n); !ok {
			got.Err = WrongReply("wait", reply)
		}
	}
	return got
}

// Waits between attempts to find the server of a lock that has moved.
const (
	firstMove = 20 * time.Millisecond
	lastMove  = 640 * time.Millisecond
)

// replicated sends a script and, on the same connection and in the same round trip, WAIT or
// WAITAOF. An error means that the script failed. If the lock is on its way to another node, or its
// node has left the cluster, the script runs where the lock is, and no replicas are asked.
func (s *Server) replicated(ctx context.Context, sc script, keys Keys, command []any, need Replicas) (reply []any, got *Confirmed, err error) {
	if !need.Asked() {
		reply, err = s.run(ctx, sc, command)
		return reply, nil, err
	}
	answer, got, err := s.atItsNode(ctx, keys, command, need)
	if err != nil && Says(err, "NOSCRIPT") {
		answer, got, err = s.atItsNode(ctx, keys, sc.whole(command), need)
	}
	s.reloadSlots(err)
	if elsewhere(err) && s.Sharded() {
		reply, err = s.run(ctx, sc, command)
		return reply, nil, err
	}
	if err != nil {
		return nil, got, sc.named(final(err), command)
	}
	reply, err = list(answer)
	return reply, got, err
}

// atItsNode is waited, repeated at the lock's new node if the slot has moved: a command that is
// answered MOVED was not executed.
func (s *Server) atItsNode(ctx context.Context, keys Keys, command []any, need Replicas) (answer any, got *Confirmed, err error) {
	for pause := firstMove; ; pause *= 2 {
		answer, got, err = s.waited(ctx, keys, command, need)
		if !s.Sharded() || !Says(err, "MOVED") || pause > lastMove {
			return answer, got, err
		}
		s.cluster.ReloadState(ctx)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, got, err
		}
	}
}

// waited sends a command, and then the question whether the replicas have its write.
func (s *Server) waited(ctx context.Context, keys Keys, command []any, need Replicas) (any, *Confirmed, error) {
	home, err := s.home(ctx, keys.Record())
	if err != nil {
		return nil, nil, err
	}
	pipe := home.Pipeline()
	cmd, wait := newOnce(ctx, command), newOnce(ctx, need.command())
	_ = pipe.Process(ctx, cmd)
	_ = pipe.Process(ctx, wait)
	if err := s.bounded(ctx, MostKept+need.Within, func() { _ = exec(ctx, pipe) }); err != nil { // each has its own
		return nil, nil, err
	}
	answer, err := cmd.Result()
	if err != nil && !Answered(err) && whole(answer) {
		err = nil // go-redis puts the failure of a later reply over those that it has read
	}
	return answer, need.confirmed(wait), err
}

// whole reports whether a reply was read to its end: a list that was not is empty.
func whole(reply any) bool {
	switch r := reply.(type) {
	case []any:
		return len(r) > 0
	case int64:
		return r != 0
	case string:
		return r != ""
	}
	return false
}

// Attached is how many replicas are connected to the server that keeps the lock, in step or not.
func (s *Server) Attached(ctx context.Context, keys Keys) (int, error) {
	home, err := s.home(ctx, keys.Record())
	if err != nil {
		return 0, err
	}
	cmd := newOnce(ctx, []any{"info", "replication"})
	if err := s.bounded(ctx, MostKept, func() { _ = process(ctx, home, cmd) }); err != nil { // the command keeps its own
		return 0, err
	}
	info, err := cmd.Text()
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(info, "connected_slaves:")
	n, _, _ := strings.Cut(rest, "\r\n")
	return strconv.Atoi(n)
}
