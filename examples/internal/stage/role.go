package stage

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// role is what a process needs that the playing process has started. Its orders come from standard
// input, and its events go to standard output, both as lines of JSON. The role ends when standard
// input ends, and that ends at the latest when the playing process dies.
type role struct {
	orders chan json.RawMessage // closed with standard input

	writing sync.Mutex // guards out
	out     *json.Encoder
}

// act plays a role until the role is over.
func (s *Stage) act(play func(context.Context, *Stage, string) error, name string) error {
	signal.Ignore(os.Interrupt, syscall.SIGHUP) // a terminal sends them to all processes, but the playing process ends this one
	// SIGTERM is caught until the process is gone: it may arrive later than the end of the input.
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-terminated:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := s.connect(ctx); err != nil {
		return err
	}
	defer s.disconnect()
	s.role = &role{orders: make(chan json.RawMessage), out: json.NewEncoder(os.Stdout)}
	go s.role.read(cancel)
	if err := play(ctx, s, name); err != nil && ctx.Err() == nil {
		return err
	}
	for range s.role.orders { // drop further orders; standard input ends when the playing process closes it
	}
	return nil
}

// read receives orders. When they end, the role ends.
func (r *role) read(cancel context.CancelFunc) {
	defer close(r.orders)
	defer cancel()
	for in := json.NewDecoder(os.Stdin); ; {
		var order json.RawMessage
		if err := in.Decode(&order); err != nil {
			if !errors.Is(err, io.EOF) {
				panic(err) // the playing process writes JSON
			}
			return
		}
		r.orders <- order
	}
}

// Tell sends an event to the playing process. The event arrives before any later event of another
// process.
func (s *Stage) Tell(event any) {
	s.role.writing.Lock()
	defer s.role.writing.Unlock()
	_ = s.role.out.Encode(event) // if nobody reads any more, standard input has ended, too
}

// Orders yields the orders sent to the process, until the process has to end.
func Orders[T any](ctx context.Context, s *Stage) iter.Seq[T] {
	return func(yield func(T) bool) {
		for {
			select {
			case raw, ok := <-s.role.orders:
				var order T
				if !ok {
					return
				}
				if err := json.Unmarshal(raw, &order); err != nil {
					panic(err) // the playing process sends this type
				}
				if !yield(order) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}
