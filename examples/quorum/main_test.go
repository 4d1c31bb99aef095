package main

import (
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/fairlock/locks/examples/internal/stagetest"
)

func TestMain(m *testing.M) { stagetest.Main(m, main) }

func TestOneIsActiveAtMostWhateverServersDie(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		checkQuorum(t, stagetest.Run(t))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		server, err := exec.LookPath("redis-server")
		if err != nil {
			t.Skipf("NOT SHOWN: %v", err)
		}
		checkQuorum(t, stagetest.Run(t, "-server", server))
	})
}

// story matches what happens, in the order in which it happens.
var story = regexp.MustCompile(`(?m)^(?:instance (\w) is active.*, with token (\d+)|  instance \w (ends) its work|  (kill -9|SIGTERM) (?:of|to) (server|instance) (\w).*|  (server \d takes part) again)$`)

func checkQuorum(t *testing.T, shown string) {
	t.Helper()
	var happened []string
	last := 0
	for _, line := range story.FindAllStringSubmatch(shown, -1) {
		what := line[1] + line[3] + line[4] + line[6] + line[7]
		happened = append(happened, what)
		if line[1] == "" {
			continue
		}
		if token, _ := strconv.Atoi(line[2]); token > last {
			last = token
		} else {
			t.Errorf("instance %s has token %d after %d", line[1], token, last)
		}
	}
	want := []string{
		"A", "kill -91", "kill -9A", "B", "server 1 takes part",
		"kill -92", "SIGTERMB", "ends", "C", "server 2 takes part",
		"kill -93", "kill -91", "ends",
	}
	if len(happened) < len(want) || !slices.Equal(happened[:len(want)], want) {
		t.Errorf("what happened: %q", happened)
	}
	if !regexp.MustCompile(`(?m)^audit: active were A B C [AC]\b.*$`).MatchString(shown) {
		t.Error("there is no audit")
	}
	if t.Failed() {
		t.Log(shown)
	}
}
