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
