package server

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNoErrorTellsAPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://me:cret/x@h", "redis://me:cret#x@h", "redis://me:cret?x@h", "redis://me:se/cret@h", "redis://me:se#cret@h", "redis://me:se?cret@h", "redis://me:1/cret@h", "redis://:se%cret@h", "http://me:cret@h",
		"redis://me:cret@h/x", "redis://me:cret@h?no=1", "redis://me:cret@h:port", "redis://h?master_name=m&password=cret&db=x",
		"redis+cluster://me:cret@h?no=1", "redis+sentinel://me:cret@h",
	} {
		c := Connection{Redis: url}
		_, err := c.prepare()
		if exit.Code(err) != exit.Usage || strings.Contains(err.Error(), "cret") || strings.Contains(c.String(), "cret") {
			t.Errorf("%s: %v, called %s", url, err, &c)
		}
	}
}

// FuzzRedisURL parses URLs and connects to nothing.
func FuzzRedisURL(f *testing.F) {
	for _, rest := range []string{"127.0.0.1:6379", "h", "h:0/15?protocol=3", "[::1]:1/x", "h:port", "h/%zz", "h?read_timeout=-1", "\x00", "h:1/2/3", "h?db=x"} {
		f.Add("redis", rest)
		f.Add("rediss", rest)
	}
	f.Add("unix", "/run/redis.sock?db=1")
	f.Add("redis", "h:26379/2?master_name=m&addr=h:1&username=u&password=p")
	f.Add("rediss+cluster", "h?addr=h:1")
	f.Add("redis+nothing", "h")
	f.Add("http", "h")
	f.Fuzz(func(t *testing.T, scheme, rest string) {
		const secret = "pA55-0f-n0b0dy"
		c := Connection{Redis: scheme + "://me:" + secret + "@" + rest}
		_, err := c.prepare()
		if strings.Contains(c.String(), secret) {
			t.Fatalf("%s, %q: the password is told: %s", scheme, rest, &c)
		}
		if err == nil {
			return
		}
		if exit.Code(err) != exit.Usage {
			t.Fatalf("%s, %q: exit code %d", scheme, rest, exit.Code(err))
		}
		if strings.Contains(err.Error(), secret) {
			t.Fatalf("%s, %q: the password is told: %v", scheme, rest, err)
		}
	})
}
