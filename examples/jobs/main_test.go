package main

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/fairlock/locks/examples/internal/stagetest"
	"github.com/fairlock/locks/internal/redistest"
)

func TestMain(m *testing.M) { stagetest.Main(m, main) }

func TestEachCustomersJobsAreDoneInOrderAlthoughAWorkerIsKilled(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		checkJobs(t, stagetest.Run(t))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		checkJobs(t, stagetest.Run(t, "-redis", "redis://"+redistest.Start(t).Addr()))
	})
}

var (
	doneLine  = regexp.MustCompile(`(?m)^ *(\w+) +(\d+) by ([A-E])( left by ([A-E]))?$`)
	killLine  = regexp.MustCompile(`(?m)^worker ([A-E]) hangs in job 5 of ben: kill -9 of process \d+, which has ([1-9]\d*) more jobs in line$`)
	auditLine = regexp.MustCompile(`(?m)^audit: 60 jobs done, each customer's in order and one at a time; (\d+) were left by worker ([A-E]);`)
)

// checkJobs looks at what was shown, and so at each job, by itself.
func checkJobs(t *testing.T, shown string) {
	t.Helper()
	kill, audit := killLine.FindStringSubmatch(shown), auditLine.FindStringSubmatch(shown)
	if kill == nil || audit == nil {
		t.Fatalf("nobody was killed, or there is no audit:\n%s", shown)
	}
	last, left := map[string]int{}, 0
	for _, line := range doneLine.FindAllStringSubmatch(shown, -1) {
		customer := line[1]
		number, _ := strconv.Atoi(line[2])
		if number != last[customer]+1 {
			t.Errorf("job %d of %s was done after its job %d", number, customer, last[customer])
		}
		last[customer] = number
		if line[5] == kill[1] {
			left++
		}
	}
	for customer, number := range last {
		if number != 15 {
			t.Errorf("the last job of %s that was done is number %d", customer, number)
		}
	}
	if len(last) != 4 || audit[1] != strconv.Itoa(left) || audit[2] != kill[1] || left == 0 {
		t.Errorf("%d customers, %d jobs left by worker %s; the audit says %q", len(last), left, kill[1], audit)
	}
	if t.Failed() {
		t.Log(shown)
	}
}
