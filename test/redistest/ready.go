package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	startTimeout = 20 * time.Second
	pollInterval = 5 * time.Millisecond
	portAttempts = 20

	// Ports are drawn from below every system's ephemeral range (Linux begins
	// at 32768). A port inside it may, while the server is down, become the
	// local end of some client's connection: then Restart cannot bind, or the
	// client that redials the dead server even connects to itself. The cluster
	// bus takes port+10000, which no port drawn here equals, and which stays below
	// 31000: the example quorum draws from there.
	firstPort, lastPort = 11000, 20999
)

var errPortTaken = errors.New("port taken")

// startOnFreePort picks a port and starts the server on it. If another program was faster to take
// the port, it tries again with another one.
func (s *Server) startOnFreePort(args []string) {
	s.tb.Helper()
	log := filepath.Join(s.tb.TempDir(), "server.log")
	for range portAttempts {
		s.port = freePort(s.tb)
		s.args = append(append(s.conf, "--port", strconv.Itoa(s.port)), args...)
		err := s.run(log)
		if err == nil {
			return
		}
		if !errors.Is(err, errPortTaken) {
			s.tb.Fatalf("start redis-server: %v", err)
		}
	}
	s.tb.Fatalf("start redis-server: no free port in %d attempts", portAttempts)
}

// freePort returns a port that the servers of other tests keep off until the test ends, also while
// its own server is down and is to be started again.
func freePort(tb testing.TB) int {
	tb.Helper()
	for range 10 * portAttempts {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if addr := local(port); reserves(tb, addr) && free(addr) {
			return port
		}
	}
	tb.Fatalf("no port between %d and %d is free", firstPort, lastPort)
	return 0
}

// reserves holds the UDP port of the same number, which no Redis uses. It comes before free, or that
// would bind, for a moment, the port of a server that is to be started again.
func reserves(tb testing.TB, addr string) bool {
	held, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	tb.Cleanup(func() { _ = held.Close() })
	return true
}

func free(addr string) bool {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	return ln.Close() == nil
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// run starts the server with s.args and returns once it answers. On an error
// nothing is left running.
func (s *Server) run(log string) error {
	p, err := startProcess(s.bin, s.args, log)
	if err != nil {
		return err
	}
	if err := s.awaitReady(p); err != nil {
		p.kill()
		return err
	}
	s.setProcess(p)
	return nil
}

// awaitReady polls until this very process answers and has loaded its data.
func (s *Server) awaitReady(p *process) error {
	var last error
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		if p.portTaken() {
			return errPortTaken
		}
		if p.ended() {
			return fmt.Errorf("it ended at once:\n%s", p.output())
		}
		if last = answers(s.Addr(), s.auth, p.cmd.Process.Pid); last == nil {
			return nil
		}
		time.Sleep(pollInterval)
	}
	return fmt.Errorf("not ready within %v: %w\n%s", startTimeout, last, p.output())
}

// answers returns nil if the process pid answers PING on addr. A PONG alone proves little: another
// program's server may have taken the port between our check and our start. Our own server has not
// noticed then that it cannot bind.
//
// answers uses a bare socket. A go-redis pool that has failed to dial answers from memory for a
// second, logs, and leaves a goroutine behind.
func answers(addr, password string, pid int) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second)) // cannot fail on an open socket
	questions := "PING\r\nINFO server\r\n"
	if password != "" {
		questions = fmt.Sprintf("AUTH %q\r\n", password) + questions
	}
	if _, err := conn.Write([]byte(questions)); err != nil {
		return err
	}
	return findPID(bufio.NewScanner(conn), strconv.Itoa(pid))
}

// findPID reads the answers up to the line with the server's process id. Any error before that
// line, such as LOADING, counts as no.
func findPID(lines *bufio.Scanner, want string) error {
	for lines.Scan() {
		line := lines.Text()
		if complaint, ok := strings.CutPrefix(line, "-"); ok {
			return errors.New(complaint)
		}
		if pid, ok := strings.CutPrefix(line, "process_id:"); ok {
			if pid != want {
				return fmt.Errorf("process %s answers on the port, not %s", pid, want)
			}
			return nil
		}
	}
	return errors.Join(errors.New("it did not tell its process id"), lines.Err())
}
