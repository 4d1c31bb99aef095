package host

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/bench/child"
)

// redisServer is a redis-server without persistence on a free port of 127.0.0.1.
type redisServer struct {
	*child.Process
	addr  string
	dir   string
	admin *redis.Client
}

// RedisProgram returns the server's program: REDIS_SERVER or redis-server.
func RedisProgram() (string, error) { return program("REDIS_SERVER", "redis-server") }

func program(variable, name string) (string, error) {
	if named := os.Getenv(variable); named != "" {
		name = named
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s %w (it may be named in %s)", name, ErrMissing, variable)
	}
	return path, nil
}

func startRedis() (Server, error) {
	path, err := RedisProgram()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench-redis-")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", dir,
		"--maxclients", "15000", "--tcp-backlog", "4096")
	s := &redisServer{addr: net.JoinHostPort("127.0.0.1", port), dir: dir}
	if s.Process, err = child.Start(cmd); err != nil {
		return nil, err
	}
	s.admin = redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1, DialerRetries: 1, ReadTimeout: time.Minute})
	if err := s.Until(func() error { return s.admin.Ping(context.Background()).Err() }); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// Addr returns the address that the server listens on.
func (s *redisServer) Addr() string { return s.addr }

// Kill ends the server and removes its directory.
func (s *redisServer) Kill() {
	_ = s.admin.Close() // nothing is under way
	s.Process.Kill()
	_ = os.RemoveAll(s.dir) // an empty directory
}

// Stats reads INFO.
func (s *redisServer) Stats(ctx context.Context) (Stats, error) {
	text, err := s.admin.Info(ctx, "everything").Result()
	if err != nil {
		return Stats{}, err
	}
	stats := Stats{Commands: map[string]int64{}}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case name == "total_net_input_bytes":
			stats.In = number(value)
		case name == "total_net_output_bytes":
			stats.Out = number(value)
		case name == "used_cpu_sys" || name == "used_cpu_user":
			seconds, _ := strconv.ParseFloat(value, 64) // 0 if the server says something else
			stats.CPU += time.Duration(seconds * float64(time.Second))
		case strings.HasPrefix(name, "cmdstat_"):
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			command := strings.TrimPrefix(name, "cmdstat_")
			command, _, _ = strings.Cut(command, "|")
			if command != "info" {
				stats.Commands[command] += number(calls)
			}
		}
	}
	return stats, nil
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64) // 0 if the server says something else
	return n
}
