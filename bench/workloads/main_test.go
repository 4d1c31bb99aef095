package workloads

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/bench/host"
)

// TestMain lets the test binary be the worker that the tests start.
func TestMain(m *testing.M) {
	logging.Disable() // go-redis logs that servers are gone; here that is intended
	if len(os.Args) == 3 && os.Args[1] == host.WorkerArg {
		if err := be(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func be(text string) error {
	var job host.Job
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		return err
	}
	w, err := NewWorker(job)
	if err != nil {
		return err
	}
	return host.Work(w)
}
