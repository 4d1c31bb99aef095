package locks

import (
	"bytes"
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestANoticeIsShownOnceAndNotWhileTheCommandRuns(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	n := NewNotices(&out)
	log := slog.New(n)
	log.Info("fairlock: fine")
	log.Warn("fairlock: odd", "lock", "x")
	log.Warn("fairlock: odd", "lock", "y")
	log.Error("fairlock: bad")
	n.Mute()
	log.Error("fairlock: worse")
	if got := out.String(); got != "fairlock: odd lock=x\nfairlock: bad\n" {
		t.Errorf("%q", got)
	}
}

func TestANoticeOfANodeSaysWhichNodeAndIsShownForEach(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(NewNotices(&out))
	for _, node := range []string{"a", "b", "a"} {
		log.With("node", node).Warn("fairlock: away", "error", "refused")
	}
	if got := out.String(); got != "fairlock: away node=a error=refused\nfairlock: away node=b error=refused\n" {
		t.Errorf("%q", got)
	}
}
