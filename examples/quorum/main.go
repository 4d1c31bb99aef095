// Command quorum has one active instance of a service, and others in line as its backups, on a
// quorum of three servers that are killed one after another. One server less is noticed by nobody,
// also while the active instance changes. With two of three gone nobody is active, rather than two.
// What comes back empty grants nothing until all that it may have forgotten is over.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/examples/internal/stage"
	"github.com/fairlock/locks/fairlock/embedded"
	"github.com/fairlock/locks/fairlock/leader"
	"github.com/fairlock/locks/quorum"
)

const (
	// leaseTime is the longest time until a backup takes over from an active instance that has
	// died.
	leaseTime = 2 * time.Second
	// longestLease is how long a server that has forgotten everything grants nothing. With 3 s
	// it would be as long: a quarantine is no shorter than 3 s and a claim, which is 3 s then, too.
	longestLease = 6 * time.Second
)

var (
	program = flag.String("server", "", "the `program` of a real server, such as redis-server, to play on; without it, servers that are embedded")
	nodes   = flag.String("nodes", "", "the `addresses` of the three servers: for the processes of the example, which start them")
)

func main() {
	redis.SetLogger(quiet{}) // servers are killed here, and the screen says so
	stage.MainAlone(play, serve)
}

// quiet is a logger for go-redis.
type quiet struct{}

// Printf drops the line.
func (quiet) Printf(context.Context, string, ...any) {}

// event is what an instance tells.
type event struct {
	Instance string
	What     what
	Position int   // in line
	Token    int64 // larger than the token of every instance that was active before
}

type what string

const (
	waits    what = "waits"
	active   what = "active"
	works    what = "works"
	finished what = "finished" // but has not unlocked yet
)

// open returns a Locker on the quorum. All processes give the same nodes and the same longest
// lease. closeAll ends it, and its connections.
func open() (locker *quorum.Locker, closeAll func()) {
	var clients []redis.UniversalClient
	for addr := range strings.SplitSeq(*nodes, ",") {
		// The quorum does the retrying: with another server, while one is away.
		clients = append(clients, redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1}))
	}
	locker = quorum.New(clients, quorum.WithLease(leaseTime), quorum.WithLongestLease(longestLease), quorum.WithLogger(slog.New(slog.DiscardHandler)))
	return locker, func() {
		_ = locker.Close() // never fails
		for _, rdb := range clients {
			_ = rdb.Close() // the process ends
		}
	}
}

// serve is an instance: a backup until it has the lock, and then active as long as it can trust the
// lock. Or it is one of the servers.
func serve(ctx context.Context, s *stage.Stage, name string) error {
	if addr, ok := strings.CutPrefix(name, "server "); ok {
		return beServer(ctx, addr)
	}
	locker, closeAll := open()
	defer closeAll()
	tell := func(what what, position int, token int64) { s.Tell(event{name, what, position, token}) }
	isQueued := quorum.OnQueued(func(position int) { tell(waits, position, 0) })

	return leader.Run(ctx, locker, "active", func(ctx context.Context, lease *quorum.Lease) error {
		tell(active, 0, lease.Token())
		// ctx ends when the instance has to end, or when no majority of the servers has renewed the
		// lock in time, which is before another instance can be active.
		for {
			select {
			case <-time.After(50 * time.Millisecond):
				tell(works, 0, lease.Token())
			case <-ctx.Done():
				tell(finished, 0, lease.Token())
				return context.Cause(ctx)
			}
		}
	}, leader.WithLock(isQueued, quorum.Note(fmt.Sprintf("instance %s", name))), leader.WithLogger(slog.New(slog.DiscardHandler)))
}

// beServer is a server at an address, until it is killed. It keeps nothing on a disk.
func beServer(ctx context.Context, addr string) error {
	if *program != "" {
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return err
		}
		return stage.Become(*program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--loglevel", "warning", "--logfile", "/dev/null")
	}
	server, err := embedded.New()
	if err != nil {
		return err
	}
	defer server.Close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return ctx.Err()
		}
		server.ServeConn(conn)
	}
}
