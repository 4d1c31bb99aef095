// Package stage is the machinery of the examples, so that the code of an example is about what it
// shows. It has a server to play on, processes of the example's own program, lines for a person to
// watch, and the audit at the end.
package stage

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock/embedded"
	"github.com/fairlock/locks/lua"
)

// Stage is what an example plays on.
type Stage struct {
	Redis  *redis.Client
	Prefix string // of all keys, so that an example disturbs nobody on a shared server

	alone   bool // there is no Redis
	url     string
	role    *role          // nil in the playing process
	dismiss []func() error // ends the processes that were started
	tidy    []func() error // removes what the processes have worked with
	broken  []string       // promises that were broken
}

// Main is the main function of an example. It runs play. In a process that play has started, it
// runs role, with the name of that process; the context of role ends when the process has to end.
// Main returns if all went well, and else ends the program with exit code 1.
func Main(play func(context.Context, *Stage) error, role func(ctx context.Context, s *Stage, name string) error) {
	drawn := "example-" + strings.ToLower(rand.Text()[:8])
	url := flag.String("redis", "", "the `URL` of a Redis to play on; without it, a server that is embedded")
	prefix := flag.String("prefix", drawn, "what all `keys` begin with")
	flag.Parse()
	s := &Stage{Prefix: *prefix, url: *url}
	if *prefix == drawn { // nobody will use this prefix again, and this key would stay for months
		s.tidy = append(s.tidy, func() error { return s.Redis.Del(context.Background(), lua.ProtocolKey(drawn)).Err() })
	}
	s.main(play, role)
}

// MainAlone is Main for an example that brings its own servers: the Stage has none.
func MainAlone(play func(context.Context, *Stage) error, role func(ctx context.Context, s *Stage, name string) error) {
	flag.Parse()
	s := &Stage{alone: true}
	s.main(play, role)
}

func (s *Stage) main(play func(context.Context, *Stage) error, role func(ctx context.Context, s *Stage, name string) error) {
	var err error
	switch name := flag.Arg(0); {
	case name == "":
		err = s.play(play)
	case role == nil:
		err = fmt.Errorf("%q is too much: there are only flags", name)
	default:
		err = s.act(role, name)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
}

// play opens the server, plays, and ends all processes.
func (s *Stage) play(play func(context.Context, *Stage) error) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if s.url == "" && !s.alone {
		server, err := embedded.Start()
		if err != nil {
			return err
		}
		defer server.Close()
		s.url = "redis://" + server.Addr()
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	defer s.disconnect()
	err := play(ctx, s)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	for _, end := range slices.Concat(s.dismiss, s.tidy) {
		err = errors.Join(err, end())
	}
	return err
}

// Cleanup has f called when the last process has ended.
func (s *Stage) Cleanup(f func()) {
	s.tidy = append(s.tidy, func() error { f(); return nil })
}

// TempDir returns a directory for the example. It is removed when the last process has ended.
func (s *Stage) TempDir() (string, error) {
	dir, err := os.MkdirTemp("", "fairlock-example-")
	if err == nil {
		s.tidy = append(s.tidy, func() error { return os.RemoveAll(dir) })
	}
	return dir, err
}

func (s *Stage) disconnect() {
	if s.Redis != nil {
		_ = s.Redis.Close() // the process ends
	}
}

func (s *Stage) connect(ctx context.Context) error {
	if s.alone {
		return nil
	}
	options, err := redis.ParseURL(s.url)
	if err != nil {
		return errors.New("-redis wants redis://[user:password@]host[:port][/database]") // err has the URL, and the URL has a password
	}
	s.Redis = redis.NewClient(options)
	if err := s.Redis.Ping(ctx).Err(); err != nil {
		_ = s.Redis.Close()
		return fmt.Errorf("no Redis at %s: %w", options.Addr, err)
	}
	return nil
}

// Check notes a promise that was not kept.
func (s *Stage) Check(kept bool, format string, args ...any) {
	if !kept {
		s.broken = append(s.broken, fmt.Sprintf(format, args...))
	}
}

// Audit ends an example: it prints one line that sums up, and returns an error if a promise was
// broken.
func (s *Stage) Audit(format string, args ...any) error {
	for _, what := range s.broken {
		s.Say("%s", Red("broken: "+what))
	}
	s.Say("\naudit: %s", fmt.Sprintf(format, args...))
	if len(s.broken) > 0 {
		return fmt.Errorf("%d promises were broken", len(s.broken))
	}
	s.Say("%s", Green("every promise was kept"))
	return nil
}
