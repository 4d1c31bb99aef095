package run

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/locktest"
)

// onTerminal is set in the environment of a test that runs once more, on a terminal of its own.
const onTerminal = "FAIRLOCK_TEST_ON_TERMINAL"

func TestCtrlCBetweenTheGrantAndTheCommandEndsTheScriptAroundIt(t *testing.T) {
	if os.Getenv(onTerminal) == "" {
		runOnTerminal(t)
		return
	}
	if !controlled() {
		t.Fatal("there is no terminal")
	}
	for got, want := range map[syscall.Signal]bool{syscall.SIGINT: true, syscall.SIGTERM: false} {
		lease, err := locktest.New(t).Lock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		p, err := lookUp([]string{"true"})
		if err != nil {
			t.Fatal(err)
		}
		signals := make(chan os.Signal, 1)
		signals <- got
		if err := p.under(lease, signals, func(*fairlock.Lease) {}); exit.Code(err) != exit.Signal+int(got) || p.interrupted != want {
			t.Errorf("%v: %v, and it dies of SIGINT: %v", got, err, p.interrupted)
		}
	}
}

// runOnTerminal runs this test in a process of its own, which has a terminal that it controls.
func runOnTerminal(t *testing.T) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("NOT SHOWN: no terminals here: %v", err)
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	again.Stdin, again.SysProcAttr = slave, &syscall.SysProcAttr{Setsid: true, Setctty: true}
	again.Env = append(os.Environ(), onTerminal+"=1")
	if text, err := again.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
}
