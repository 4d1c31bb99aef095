package redistest

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/test/poll"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests; none of them should come near it.
const patience = 10 * time.Second

// eventually polls until ok returns true. If it never does, the failure names what.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !poll.Until(patience, ok) {
		t.Fatalf("waited %v in vain until %s", patience, what)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// impatient makes a client report a silent server soon and without retries.
func impatient(o *redis.Options) {
	o.MaxRetries, o.ReadTimeout = -1, 50*time.Millisecond
}

func ping(c *redis.Client) error { return c.Ping(context.Background()).Err() }

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

// refuses says whether nothing listens on addr any more.
func refuses(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return err != nil
}
