package survey

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/fairlock"
)

// slow is a Locker whose List goes on when it may.
type slow struct {
	fairlock.Interface
	begun, goes chan struct{}
}

func (s slow) List(context.Context) iter.Seq2[*fairlock.State, error] {
	return func(func(*fairlock.State, error) bool) {
		close(s.begun)
		<-s.goes
	}
}

func (slow) Inspect(_ context.Context, name string) (*fairlock.State, error) {
	return &fairlock.State{Name: name}, nil
}

func TestALookAtOneLockWaitsForTheLookAtAll(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1}) // its pings measure nothing
	defer rdb.Close()
	locker := slow{begun: make(chan struct{}), goes: make(chan struct{})}
	s := New(look.NewPace(time.Millisecond, rdb), locks.Locker{Interface: locker})
	over := make(chan error)
	go func() {
		_, err := s.Look(context.Background())
		over <- err
	}()
	<-locker.begun
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := s.Line(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it looks beside the other: %v", err)
	}
	close(locker.goes)
	if err := <-over; err != nil {
		t.Error(err)
	}
	if state, _, err := s.Line(context.Background(), "x"); err != nil || state.Name != "x" {
		t.Errorf("%+v, %v", state, err)
	}
}
