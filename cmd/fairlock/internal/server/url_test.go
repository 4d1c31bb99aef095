package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNoErrorTellsAPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://me:cret/x@h", "redis://me:cret#x@h", "redis://me:cret?x@h", "redis://me:se/cret@h", "redis://me:se#cret@h", "redis://me:se?cret@h", "redis://me:1/cret@h", "redis://:se%cret@h", "http://me:cret@h",
		"redis://me:s@x/cret@h", "redis://me:s@x?cret@h", "redis://me:s@cret#x@h", "redis://me:s@x#cret@h", "redis://me:s@x?cret=1@h", "unix://me:s@cret/x@/socket",
		"redis://me:cret@h/x", "redis://me:cret@h?no=1", "redis://me:cret@h:port", "redis://h?master_name=m&password=cret&db=x",
		"redis://h?master_name=m&password=se&2cret", "redis://h?master_name=m&password=se%2scret", "redis://h?master_name=m&password=se;cret", "redis://h?master_name=m&password=se#cret",
		"redis://h?master_name=m&sentinel_password=se&2cret=1", "redis://me:s@h?master_name=m&password=se%2scret", "redis://h?password=s&2cret", "redis://h:port?password=cret",
		"redis+cluster://me:cret@h?no=1", "redis+sentinel://me:cret@h",
	} {
		c := Connection{Redis: []string{url}}
		_, err := c.site().prepare()
		if exit.Code(err) != exit.Usage || strings.Contains(err.Error(), "cret") || strings.Contains(c.String(), "cret") {
			t.Errorf("%s: %v, called %s", url, err, &c)
		}
	}
}

func TestAHostIsAServerWithoutSayingRedis(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{ //nolint:gosec // no secret of anybody's
		"h": "h:6379 0 ", "127.0.0.1:7": "127.0.0.1:7 0 ", "[::1]:8/2": "[::1]:8 2 ", "me:secret@h": "h:6379 0 secret",
	} {
		s := (&Connection{Redis: []string{given}}).site()
		form, u, err := s.address()
		if err != nil || form != single {
			t.Errorf("%s: form %d, %v", given, form, err)
			continue
		}
		o, err := s.options(u)
		if err != nil {
			t.Errorf("%s: %v", given, err)
		} else if got := fmt.Sprint(o.Addr, " ", o.DB, " ", o.Password); got != want {
			t.Errorf("%s: %q", given, got)
		}
	}
	for _, given := range []string{"", "/run/redis.sock", "me:se/cret@h", "h:port"} {
		_, err := (&Connection{Redis: []string{given}}).Open()
		if exit.Code(err) != exit.Usage || strings.Contains(err.Error(), "cret") {
			t.Errorf("%q: %v", given, err)
		}
	}
}

func TestNoErrorTellsAPasswordOfANode(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"quorum:a,b,redis://me:se/cret@h", "quorum:me:1/cret@a,b,c", "quorum:redis://me:cret@a,b,c,d", "quorum:a,b,redis://me:cret@h?master_name=m",
		"quorum:me:cret@a,b,", "quorum:rediss://me:cret@a:port,b,c", "quorum:quorum:me:cret@a,b,c", "quorum:redis://me:s@x/cret@a,b,c", "quorum:redis://me:s@cret#x@a,b,c",
	} {
		c := Connection{Redis: []string{url}}
		_, err := c.Nodes()
		if exit.Code(err) != exit.Usage || strings.Contains(err.Error(), "cret") || strings.Contains(c.String(), "cret") {
			t.Errorf("%s: %v, called %s", url, err, &c)
		}
	}
}

func TestAQuorumIsNamedInOneWordOrNodeByNode(t *testing.T) {
	t.Parallel()
	for _, given := range [][]string{
		{"quorum:me:secret@a,redis://b:7/1,[::1]:8"},
		{"me:secret@a", "redis://b:7/1", "[::1]:8"},
	} {
		c := Connection{Redis: given}
		nodes, err := c.Nodes()
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, rdb := range nodes {
			o := rdb.(*redis.Client).Options()
			all = append(all, fmt.Sprint(o.Addr, " ", o.DB, " ", o.Password))
			_ = rdb.Close()
		}
		if !slices.Equal(all, []string{"a:6379 0 secret", "b:7 1 ", "[::1]:8 0 "}) || c.String() != "the quorum a, b:7, [::1]:8" || !c.Quorum() {
			t.Errorf("%q: %q, called %s", given, all, &c)
		}
	}
	for _, given := range [][]string{{"quorum:a,b"}, {"a", "b", "c", "d"}, {"quorum:a,b,redis+cluster://c"}, {"quorum:a,b,c", "d", "e"}, {"quorum:"}} {
		if _, err := (&Connection{Redis: given}).Nodes(); exit.Code(err) != exit.Usage {
			t.Errorf("%q: %v", given, err)
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
		c := Connection{Redis: []string{scheme + "://me:" + secret + "@" + rest}}
		_, err := c.site().prepare()
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
