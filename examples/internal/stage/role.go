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

// role is what a process has that was started by the one that plays: its orders come from standard input, what it tells
// goes to standard output, both as lines of JSON. It ends with standard input, which also ends when whoever plays dies.
type role struct {
	orders chan json.RawMessage // closed with standard input

	writing sync.Mutex // guards out
	out     *json.Encoder
}

// act plays a role until it is over.
func (s *Stage) act(play func(context.Context, *Stage, string) error, name string) error {
	signal.Ignore(os.Interrupt, syscall.SIGHUP) // a terminal sends them to all of us, and whoever plays ends us
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	if err := s.connect(ctx); err != nil {
		return err
	}
	defer s.Redis.Close()
	s.role = &role{orders: make(chan json.RawMessage), out: json.NewEncoder(os.Stdout)}
	go s.role.read(cancel)
	if err := play(ctx, s, name); err != nil && ctx.Err() == nil {
		return err
	}
	for range s.role.orders { // nobody to take them any more; it ends when whoever plays lets it
	}
	return nil
}

// read takes in orders. Its end is the role's.
func (r *role) read(cancel context.CancelFunc) {
	defer close(r.orders)
	defer cancel()
	for in := json.NewDecoder(os.Stdin); ; {
		var order json.RawMessage
		if err := in.Decode(&order); err != nil {
			if !errors.Is(err, io.EOF) {
				panic(err) // whoever plays writes JSON
			}
			return
		}
		r.orders <- order
	}
}

// Tell tells whoever plays what has happened, before anything that comes after it can happen in another process.
func (s *Stage) Tell(event any) {
	s.role.writing.Lock()
	defer s.role.writing.Unlock()
	_ = s.role.out.Encode(event) // if nobody listens any more, standard input has ended too
}

// Orders are what the process is sent, until it is to end.
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
					panic(err) // the same type is sent
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
