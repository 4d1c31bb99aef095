package redistest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

const childEnv = "REDISTEST_CHILD"

// TestMainOfAChildThatIsKilled is not a test of its own: it is what
// TestNoServerOutlivesAKilledTestBinary runs and kills.
func TestMainOfAChildThatIsKilled(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		t.Skip("runs only as the child of another test")
	}
	fmt.Printf("addr=%s\n", Start(t).Addr())
	_, _ = os.Stdin.Read(make([]byte, 1)) // never returns: the parent kills us
}

func TestNoServerOutlivesAKilledTestBinary(t *testing.T) {
	findBinary(t)
	child := exec.Command(os.Args[0], "-test.run=^TestMainOfAChildThatIsKilled$")
	child.Env = append(os.Environ(), childEnv+"=1", "TMPDIR="+t.TempDir())
	stdin, err := child.StdinPipe()
	must(t, err)
	defer stdin.Close()
	stdout, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	addr := addrFrom(bufio.NewScanner(stdout))
	must(t, child.Process.Kill())
	_ = child.Wait()
	if addr == "" {
		t.Fatal("the child started no server")
	}
	eventually(t, "the child's server is gone", func() bool { return refuses(addr) })
}

func addrFrom(lines *bufio.Scanner) string {
	for lines.Scan() {
		if addr, ok := strings.CutPrefix(lines.Text(), "addr="); ok {
			return addr
		}
	}
	return ""
}

func TestAServerOutlivesTheThreadThatAskedForIt(t *testing.T) {
	findBinary(t)
	started := make(chan *Server, 1)
	go func() {
		defer close(started)
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		started <- Start(t)
	}()
	s := <-started
	<-started // closed: only the goroutine's end is left
	for range 100 {
		must(t, ping(s.Client(t)))
	}
	if s.process().ended() {
		t.Fatal("the server died with the thread")
	}
}
