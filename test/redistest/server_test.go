package redistest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestAStartedServerAnswersAndKeepsNothingOnDisk(t *testing.T) {
	s := Start(t)
	c := s.Client(t)
	must(t, ping(c))
	for option, want := range map[string]string{"save": "", "appendonly": "no"} {
		got, err := c.ConfigGet(context.Background(), option).Result()
		must(t, err)
		if got[option] != want {
			t.Errorf("%s = %q, want %q", option, got[option], want)
		}
	}
}

func TestEveryServerHasItsOwnPortAndItsOwnData(t *testing.T) {
	one, two := Start(t), Start(t)
	if one.Port() == two.Port() || one.PID() == two.PID() {
		t.Fatalf("both are %s, process %d", one.Addr(), one.PID())
	}
	must(t, one.Client(t).Set(context.Background(), "k", "v", 0).Err())
	if err := two.Client(t).Get(context.Background(), "k").Err(); err != redis.Nil {
		t.Fatalf("the other server knows the key: %v", err)
	}
}

func TestTheServerIsGoneWhenItsTestHasEnded(t *testing.T) {
	var s *Server
	t.Run("the test", func(t *testing.T) { s = Start(t) })
	if s == nil {
		t.Skip("the inner test did not start a server")
	}
	if !refuses(s.Addr()) {
		t.Fatal("it still accepts connections")
	}
}

func TestExtraArgsWinOverTheDefaults(t *testing.T) {
	c := Start(t, "--appendonly", "yes").Client(t)
	got, err := c.ConfigGet(context.Background(), "appendonly").Result()
	must(t, err)
	if got["appendonly"] != "yes" {
		t.Fatalf("appendonly = %q", got["appendonly"])
	}
}

func TestAServerWithAPasswordStartsAndItsClientsKnowIt(t *testing.T) {
	s := Start(t, "--requirepass", "first", "--requirepass", "sesame")
	must(t, ping(s.Client(t)))
	stranger := s.Client(t, impatient, func(o *redis.Options) { o.Password = "" })
	eventually(t, "a client without a password is turned away", func() bool {
		err := ping(stranger)
		if err == nil {
			t.Fatal("it is let in")
		}
		return strings.Contains(err.Error(), "NOAUTH")
	})
}

func TestWithoutARedisServerTheTestIsSkippedAndSaysWhatIsNotShown(t *testing.T) {
	t.Setenv("REDIS_SERVER", "there-is-no-such-program")
	t.Setenv("FAIRLOCK_REQUIRE_REDIS", "")
	got := verdictOf(t, func(tb testing.TB) { Start(tb) })
	if !strings.HasPrefix(got, "skip: NOT SHOWN") || !strings.Contains(got, "there-is-no-such-program") {
		t.Fatal(got)
	}
}

func TestWithoutARequiredRedisServerTheTestFails(t *testing.T) {
	t.Setenv("REDIS_SERVER", "there-is-no-such-program")
	t.Setenv("FAIRLOCK_REQUIRE_REDIS", "1")
	got := verdictOf(t, func(tb testing.TB) { Start(tb) })
	if !strings.HasPrefix(got, "fatal: FAIRLOCK_REQUIRE_REDIS=1") {
		t.Fatal(got)
	}
}

func TestArgsThatRedisRefusesFailTheTestWithItsOwnWords(t *testing.T) {
	Start(t) // skips the test if there is no server
	got := verdictOf(t, func(tb testing.TB) { Start(tb, "--no-such-option", "1") })
	if !strings.HasPrefix(got, "fatal: start redis-server: it ended at once") ||
		!strings.Contains(got, "no-such-option") {
		t.Fatal(got)
	}
}

// verdictOf runs test with a TB that remembers how the test was ended.
func verdictOf(t *testing.T, test func(testing.TB)) string {
	v := &verdict{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(v)
	}()
	<-done
	return v.text
}

type verdict struct {
	testing.TB
	text string
}

func (v *verdict) Fatalf(format string, args ...any) { v.end("fatal: "+format, args) }
func (v *verdict) Fatal(args ...any)                 { v.end("fatal: "+fmt.Sprint(args...), nil) }
func (v *verdict) Skipf(format string, args ...any)  { v.end("skip: "+format, args) }

func (v *verdict) end(format string, args []any) {
	v.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestThePortOfAServerThatIsDownIsTakenByNoOtherTest(t *testing.T) {
	down := Start(t)
	down.Kill()
	if !free(down.Addr()) || reserves(t, down.Addr()) {
		t.Error("another server could have had it")
	}
	secure := StartTLS(t, NewAuthority(t))
	if reserves(t, secure.TLSAddr) {
		t.Error("another server could have had the port for TLS")
	}
}
