package main

import (
	"bytes"
	"log/slog"
	"testing"
)

func TestANoticeIsShownOnceAndNotWhileTheCommandRuns(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	n := newNotices(&out)
	log := slog.New(n)
	log.Info("fairlock: fine")
	log.Warn("fairlock: odd", "lock", "x")
	log.Warn("fairlock: odd", "lock", "y")
	log.Error("fairlock: bad")
	n.hush()
	log.Error("fairlock: worse")
	if got := out.String(); got != "fairlock: odd lock=x\nfairlock: bad\n" {
		t.Errorf("%q", got)
	}
}
