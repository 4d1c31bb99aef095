// Package stagetest runs an example as its user would, for the test of the example.
package stagetest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asExample makes the test binary behave as the example, so that the example, too, is run under the
// race detector.
const asExample = "FAIRLOCK_TEST_AS_EXAMPLE"

// leaked is the exit code of an example, or of one of its processes, that left goroutines behind.
const leaked = 99

// dials is where a pool of go-redis looks once a second whether a server is back. It ends up to a
// second after the pool is closed.
const dials = "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"

// patience bounds a run. No run should come near it.
const patience = 2 * time.Minute

// Main is for the TestMain of an example.
func Main(m *testing.M, example func()) {
	if os.Getenv(asExample) == "" {
		_ = flag.Set("test.parallel", "4") // most of the time they wait for leases to end
		goleak.VerifyTestMain(m)
		return
	}
	example()
	if err := goleak.Find(goleak.IgnoreAnyFunction(dials)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(leaked)
	}
}

// Command prepares a run of the example.
func Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asExample+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.WaitDelay = time.Second // a server that outlives the example keeps its output open
	return cmd
}

// Run runs the example, which must end well, and returns what it prints.
func Run(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := Command(ctx, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\nstderr: %s\nstdout: %s", err, &stderr, out)
	}
	return string(out)
}
