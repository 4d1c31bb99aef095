package host

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/locks/bench/child"
)

// etcdServer is a cluster of one node on free ports of 127.0.0.1.
type etcdServer struct {
	*child.Process
	addr string
	dir  string
}

// EtcdProgram returns the server's program: ETCD_SERVER or etcd. Debian's package etcd-server has
// it.
func EtcdProgram() (string, error) { return program("ETCD_SERVER", "etcd") }

func startEtcd() (Server, error) {
	path, err := EtcdProgram()
	if err != nil {
		return nil, err
	}
	client, err := freePort()
	if err != nil {
		return nil, err
	}
	peer, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(memory(), "bench-etcd-")
	if err != nil {
		return nil, err
	}
	clients, peers := "http://127.0.0.1:"+client, "http://127.0.0.1:"+peer
	cmd := exec.Command(path, "--name", "bench", "--data-dir", dir, "--log-level", "fatal",
		"--listen-client-urls", clients, "--advertise-client-urls", clients,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "bench="+peers)
	s := &etcdServer{addr: "127.0.0.1:" + client, dir: dir}
	if s.Process, err = child.Start(cmd); err != nil {
		return nil, err
	}
	if err := s.Until(s.healthy); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// memory returns a directory in memory: the Redis of a measurement has no persistence either.
func memory() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// Addr returns the address that the server listens on.
func (s *etcdServer) Addr() string { return s.addr }

// Kill ends the server and removes its data.
func (s *etcdServer) Kill() {
	s.Process.Kill()
	_ = os.RemoveAll(s.dir) // what stays is in a directory for temporary files
}

func (s *etcdServer) healthy() error {
	text, err := s.read(context.Background(), "/health")
	if err == nil && !strings.Contains(text, `"true"`) {
		err = fmt.Errorf("etcd is not healthy: %s", text)
	}
	return err
}

func (s *etcdServer) read(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+path, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// Stats reads the metrics. A request is a message from a client: a unary call has one, a stream has
// many.
func (s *etcdServer) Stats(ctx context.Context) (Stats, error) {
	text, err := s.read(ctx, "/metrics")
	if err != nil {
		return Stats{}, err
	}
	stats := Stats{Commands: map[string]int64{}}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		name, rest, ok := strings.Cut(lines.Text(), "{")
		if !ok {
			name, rest, _ = strings.Cut(lines.Text(), " ")
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			continue
		}
		switch name {
		case "grpc_server_msg_received_total":
			_, method, _ := strings.Cut(rest, `grpc_method="`)
			method, _, _ = strings.Cut(method, `"`)
			stats.Commands[method] += int64(value)
		case "etcd_network_client_grpc_received_bytes_total":
			stats.In = int64(value)
		case "etcd_network_client_grpc_sent_bytes_total":
			stats.Out = int64(value)
		case "process_cpu_seconds_total":
			stats.CPU = time.Duration(value * float64(time.Second))
		}
	}
	return stats, lines.Err()
}
