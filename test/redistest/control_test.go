package redistest

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestAPausedServerIsSilentUntilItResumes(t *testing.T) {
	s := Start(t)
	c := s.Client(t, impatient)
	eventually(t, "it is connected", func() bool { return ping(c) == nil })
	s.Pause()
	if err := ping(c); !isTimeout(err) {
		t.Fatalf("ping of a paused server: %v, want a timeout", err)
	}
	s.Resume()
	eventually(t, "the server answers again", func() bool { return ping(c) == nil })
}

func TestWhatAClientSentToAPausedServerIsDoneAfterResumeThoughItGaveUp(t *testing.T) {
	s := Start(t)
	c := s.Client(t, impatient)
	eventually(t, "it is connected", func() bool { return ping(c) == nil }) // before the pause
	s.Pause()
	if err := c.Set(context.Background(), "late", "1", 0).Err(); !isTimeout(err) {
		t.Fatalf("set on a paused server: %v, want a timeout", err)
	}
	must(t, c.Close())
	s.Resume()
	other := s.Client(t)
	eventually(t, "the write of the client that left is there", func() bool {
		return other.Get(context.Background(), "late").Val() == "1"
	})
}

func TestAPausedServerCanBeKilled(t *testing.T) {
	s := Start(t)
	s.Pause()
	s.Kill()
	s.Kill() // a second time does nothing
	if !refuses(s.Addr()) {
		t.Fatal("it still accepts connections")
	}
}

func TestARestartedServerIsAtTheSameAddressAndEmpty(t *testing.T) {
	s := Start(t)
	c := s.Client(t)
	addr, pid := s.Addr(), s.PID()
	must(t, c.Set(context.Background(), "k", "v", 0).Err())
	s.Kill()
	s.Restart()
	if s.Addr() != addr || s.PID() == pid {
		t.Fatalf("%s process %d after %s process %d", s.Addr(), s.PID(), addr, pid)
	}
	if err := c.Get(context.Background(), "k").Err(); err != redis.Nil {
		t.Fatalf("the same client after the restart: %v, want no such key", err)
	}
}

func TestARestartedServerHasReloadedItsAppendOnlyFile(t *testing.T) {
	s := Start(t, "--appendonly", "yes", "--appendfsync", "always")
	c := s.Client(t)
	must(t, c.Set(context.Background(), "k", "v", time.Hour).Err())
	s.Kill()
	s.Restart()
	if got := c.Get(context.Background(), "k").Val(); got != "v" {
		t.Fatalf("k = %q after the restart", got)
	}
}

func TestRestartOfARunningServerFailsTheTest(t *testing.T) {
	s := Start(t)
	got := verdictOf(t, func(tb testing.TB) {
		s.tb = tb
		s.Restart()
	})
	if got == "" {
		t.Fatal("it did not")
	}
}
