// Package host runs what a measurement needs on this machine: servers, workers that are real
// processes, and slow links.
package host

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/fairlock/locks/bench/peers"
)

// ErrMissing says that a server's program is not installed.
var ErrMissing = errors.New("is not installed")

// Server is a running server that belongs to one measurement.
type Server interface {
	Addr() string
	// Stats returns what the server has done since its start.
	Stats(ctx context.Context) (Stats, error)
	Kill()
}

// Stats counts what a server has done.
type Stats struct {
	Commands map[string]int64 // calls by command, with the calls of scripts; for etcd by method
	In, Out  int64            // bytes
	CPU      time.Duration
}

// Minus returns what the server has done since before.
func (s Stats) Minus(before Stats) Stats {
	d := Stats{Commands: map[string]int64{}, In: s.In - before.In, Out: s.Out - before.Out, CPU: s.CPU - before.CPU}
	for name, calls := range s.Commands {
		d.Commands[name] = calls - before.Commands[name]
	}
	return d
}

// Requests counts the requests of clients: those of the given commands, or all if there are none.
func (s Stats) Requests(commands []string) (n int64) {
	if commands == nil {
		for _, calls := range s.Commands {
			n += calls
		}
	}
	for _, name := range commands {
		n += s.Commands[name]
	}
	return n
}

// Serve starts a server of the kind that a peer needs.
func Serve(kind string) (Server, error) {
	if kind == peers.Etcd {
		return startEtcd()
	}
	return startRedis()
}

// freePort returns a loopback port that was free a moment ago.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening takes no time
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}
