package main

import (
	"bufio"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairlock/locks/examples/internal/stagetest"
	"github.com/fairlock/locks/test/redistest"
)

func TestMain(m *testing.M) { stagetest.Main(m, main) }

func TestBackupsTakeOverInTheOrderOfTheirLine(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		checkStandby(t, stagetest.Run(t))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		checkStandby(t, stagetest.Run(t, "-redis", "redis://"+redistest.Start(t).Addr()))
	})
}

func TestTheInstancesOfAKilledExampleEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	cmd := stagetest.Command(t.Context(), "-redis", "redis://"+s.Addr())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan() && !strings.Contains(lines.Text(), "number 2 in line"); {
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		list, err := rdb.ClientList(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(list, "\n") == 1 { // this list has nobody but us
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still connected are\n%s", list)
		}
	}
}

// story matches what happens, in the order in which it happens.
var story = regexp.MustCompile(`(?m)^(?:instance (\w) is active.*, with token (\d+)|  (kill -9|SIGTERM).*)$`)

func checkStandby(t *testing.T, shown string) {
	t.Helper()
	var happened []string
	last := 0
	for _, line := range story.FindAllStringSubmatch(shown, -1) {
		happened = append(happened, line[1]+line[3])
		if line[1] == "" {
			continue
		}
		if token, _ := strconv.Atoi(line[2]); token > last {
			last = token
		} else {
			t.Errorf("instance %s has token %d after %d", line[1], token, last)
		}
	}
	if !slices.Equal(happened, []string{"A", "kill -9", "B", "kill -9", "C", "SIGTERM", "A"}) {
		t.Errorf("what happened: %q", happened)
	}
	if !regexp.MustCompile(`(?m)^audit: active were A B C A, `).MatchString(shown) {
		t.Error("there is no audit")
	}
	if t.Failed() {
		t.Log(shown)
	}
}
