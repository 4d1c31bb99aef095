package main

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/fairlock/locks/examples/internal/stagetest"
	"github.com/fairlock/locks/test/redistest"
)

func TestMain(m *testing.M) { stagetest.Main(m, main) }

func TestEachCustomersJobsAreDoneInOrderAlthoughAWorkerIsKilled(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		checkShown(t, stagetest.Run(t))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		checkShown(t, stagetest.Run(t, "-redis", "redis://"+s.Addr(), "-prefix", "test"))
		checkLedger(t, ledger{s.Client(t), "test"})
	})
}

var (
	doneLine  = regexp.MustCompile(`(?m)^ *(\w+) +(\d+) by [A-E]( left by [A-E])?$`)
	killLine  = regexp.MustCompile(`(?m)^worker ([A-E]) hangs in job 5 of ben: kill -9 of process \d+, which has \d+ more jobs in line$`)
	auditLine = regexp.MustCompile(`(?m)^audit: 60 jobs done, each customer's in order and one at a time; ([1-9]\d*) were left by worker ([A-E]);`)
)

// checkShown checks the printed lines. They have everything except what the killed worker did and
// could not tell any more.
func checkShown(t *testing.T, shown string) {
	t.Helper()
	kill, audit := killLine.FindStringSubmatch(shown), auditLine.FindStringSubmatch(shown)
	if kill == nil || audit == nil || kill[1] != audit[2] {
		t.Errorf("nobody was killed, or there is no audit: %q, %q", kill, audit)
	}
	last := map[string]int{}
	for _, line := range doneLine.FindAllStringSubmatch(shown, -1) {
		number, _ := strconv.Atoi(line[2])
		if customer := line[1]; number > last[customer] {
			last[customer] = number
		} else {
			t.Errorf("job %d of %s was done after its job %d", number, customer, last[customer])
		}
	}
	for _, customer := range customers {
		if last[customer] != perCustomer {
			t.Errorf("the last job of %s that was done is number %d", customer, last[customer])
		}
	}
	if t.Failed() {
		t.Log(shown)
	}
}

// checkLedger checks the ledger. It has everything.
func checkLedger(t *testing.T, l ledger) {
	t.Helper()
	for _, customer := range customers {
		entries, err := l.all(context.Background(), customer)
		if err != nil || len(entries) != perCustomer {
			t.Errorf("%s: %q, %v", customer, entries, err)
		}
		for i, entry := range entries {
			if !strings.HasPrefix(entry, strconv.Itoa(i+1)+" ") {
				t.Errorf("%s: entry %d is %q", customer, i+1, entry)
			}
		}
	}
}

func TestAJobIsEnteredOnceAlthoughAPausedWorkerEntersItAfterTheNextReadItsNumber(t *testing.T) {
	ctx, l := t.Context(), ledger{redistest.Start(t).Client(t), "test"}
	enter := func(number int, worker string, token int64) {
		t.Helper()
		if err := l.enter(ctx, "ann", number, worker, token); err != nil {
			t.Fatal(err)
		}
	}
	enter(1, "A", 4)
	number, err := l.next(ctx, "ann") // both A and B read it
	if number != 2 || err != nil {
		t.Fatal(number, err)
	}
	enter(number, "A", 5)
	enter(number, "B", 6)
	entries, err := l.all(ctx, "ann")
	if err != nil || len(entries) != 2 || entries[1] != "2 A" {
		t.Errorf("%q, %v", entries, err)
	}
	if next, err := l.next(ctx, "ann"); next != 3 || err != nil {
		t.Errorf("the next job is %d, %v", next, err)
	}
}
