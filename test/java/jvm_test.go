package java

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/poll"
	"github.com/fairlock/locks/test/redistest"
)

// patience bounds every wait of these tests; none of them should come near it.
const patience = time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// is fails the test unless the call answers want.
func is[V comparable](t *testing.T, want V, answer func(context.Context) (V, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if got, err := answer(ctx); err != nil || got != want {
		t.Fatalf("%v, %v; want %v", got, err, want)
	}
}

// returns fails the test unless the calls return without an exception.
func returns(t *testing.T, calls ...*Call) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, call := range calls {
		must(t, call.Err(ctx))
	}
}

// throws fails the test unless the call ends with this exception.
func throws(t *testing.T, class string, call *Call) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := call.Err(ctx)
	if thrown, ok := errors.AsType[*Exception](err); !ok || !strings.HasSuffix(thrown.Class, class) {
		t.Fatalf("%v, want %s", err, class)
	}
}

// until polls until ok returns true. If it never does, the failure names what.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !poll.Until(patience, ok) {
		t.Fatalf("waited %v in vain until %s", patience, what)
	}
}

func TestCallsEndWhenTheirJVMIsKilledAndLaterOnesEndAtOnce(t *testing.T) {
	s := redistest.Start(t)
	j := Start(t, Config{Addrs: []string{s.Addr()}})
	returns(t, j.Thread("holder").Lock(Plain, "x"))
	waits := j.Thread("waiter").Lock(Plain, "x")
	j.Kill()
	for _, call := range []*Call{waits, j.Thread("late").Lock(Plain, "x")} {
		if err := call.Err(t.Context()); !errors.Is(err, ErrEnded) {
			t.Errorf("%v, want that the JVM has ended", err)
		}
	}
}

func TestAStoppedJVMDoesNothingUntilItContinuesAndThenAllThatItWasAsked(t *testing.T) {
	s := redistest.Start(t)
	j, rdb := Start(t, Config{Addrs: []string{s.Addr()}}), s.Client(t)
	returns(t, j.Thread("a").Lock(Plain, "x"), j.Thread("a").Unlock(Plain, "x"))
	must(t, j.Stop())
	locks := j.Thread("a").Lock(Plain, "x")
	if n := rdb.Exists(t.Context(), "x").Val(); n != 0 {
		t.Error("it took the lock while it was stopped")
	}
	must(t, j.Continue())
	returns(t, locks)
	must(t, j.Close())
	must(t, j.Close()) // a second time does nothing
}

func TestAJVMThatEndsByItselfFailsTheTestAndShowsWhatItSaid(t *testing.T) {
	s := redistest.Start(t)
	v := &verdict{T: t}
	j := Start(v, Config{Addrs: []string{s.Addr()}, Args: []string{"-showversion"}})
	waits := j.Thread("a").Lock(Plain, "x")
	must(t, j.process.cmd.Process.Kill()) // not by us, as far as j knows
	<-waits.Done()
	v.clean()
	if v.what != "error" || !strings.Contains(v.text, "ended by itself") || !strings.Contains(v.text, "OpenJDK") {
		t.Errorf("%s: %s", v.what, v.text)
	}
}

func TestAJVMThatDoesNotStartIsAnErrorThatSaysWhy(t *testing.T) {
	Require(t)
	j, err := Launch(Config{Addrs: []string{"127.0.0.1:1"}, Args: []string{"-XX:NoSuchOption"}})
	if err == nil || !strings.Contains(err.Error(), "NoSuchOption") {
		t.Errorf("%v, %v", j, err)
	}
}

const childEnv = "JAVA_TEST_CHILD" // the address of a server

// TestMainOfAChildThatIsKilled is not a test of its own: it is what
// TestNoJVMOutlivesAKilledTestBinary runs and kills.
func TestMainOfAChildThatIsKilled(t *testing.T) {
	addr := os.Getenv(childEnv)
	if addr == "" {
		t.Skip("runs only as the child of another test")
	}
	Start(t, Config{Addrs: []string{addr}})
	fmt.Println("started")
	_, _ = os.Stdin.Read(make([]byte, 1)) // never returns: the parent kills us
}

func TestNoJVMOutlivesAKilledTestBinary(t *testing.T) {
	Require(t)
	s := redistest.Start(t)
	child := exec.Command(os.Args[0], "-test.run=^TestMainOfAChildThatIsKilled$")
	child.Env = append(os.Environ(), childEnv+"="+s.Addr())
	stdin, err := child.StdinPipe()
	must(t, err)
	defer stdin.Close()
	stdout, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	said := make([]byte, len("started"))
	_, _ = stdout.Read(said)
	rdb := s.Client(t)
	must(t, rdb.Ping(t.Context()).Err())
	if n := clients(rdb); string(said) != "started" || n < 2 {
		t.Errorf("the child said %q and the server has %d clients", said, n)
	}
	must(t, child.Process.Kill())
	_ = child.Wait()
	until(t, "the child's JVM is gone", func() bool { return clients(rdb) == 1 })
}

// clients returns how many connections the server of rdb has, with that of rdb.
func clients(rdb *redis.Client) int {
	return strings.Count(rdb.ClientList(context.Background()).Val(), "\n")
}
