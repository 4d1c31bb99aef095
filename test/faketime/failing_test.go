package faketime

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/written"
)

// As behind a Sentinel that takes a replica for the master: it answers all but scripts.
func TestWaitersWhoseRequestsAreRefusedForLongAreLoggedOnceAMinute(t *testing.T) {
	ofBothKinds(t, func(s lossy) {
		var seen written.Text
		lines := func() int { return strings.Count(seen.String(), "requests for a lock fail") }
		l, _ := s.client(fairlock.WithLogger(slog.New(slog.NewTextHandler(&seen, nil))))
		lease := s.lock(l)
		ctx, cancel := context.WithCancel(s.Context())
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { _, _ = l.Lock(ctx, "x") })
		}
		time.Sleep(time.Second)
		s.mini.SetError("READONLY You can't write against a read only replica.")
		time.Sleep(9 * time.Second)
		if n := lines(); n != 0 {
			s.Errorf("%d lines in the first seconds: %s", n, seen.String())
		}
		time.Sleep(20 * time.Second)
		if n := lines(); n != 1 || !strings.Contains(seen.String(), "lock=x") || !strings.Contains(seen.String(), "READONLY") {
			s.Errorf("%d lines: %s", n, seen.String())
		}
		time.Sleep(time.Minute)
		if n := lines(); n != 2 {
			s.Errorf("%d lines a minute later: %s", n, seen.String())
		}
		s.mini.SetError("")
		time.Sleep(10 * time.Second)
		s.mini.SetError("READONLY You can't write against a read only replica.")
		time.Sleep(9 * time.Second)
		s.mini.SetError("")
		time.Sleep(time.Minute)
		if n := lines(); n != 2 {
			s.Errorf("%d lines after an outage of 9 s: %s", n, seen.String())
		}
		cancel()
		all.Wait()
		_ = lease.Unlock(s.Context()) // it is lost
	})
}
