package doctor

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAdviceIsWrappedBetweenWordsSoThatItCanBeCopied(t *testing.T) {
	t.Parallel()
	p := &output.Page{Width: 60}
	rule := (&patient{prefix: "fairlock"}).rule()
	text := p.Wrapped(rule, 20)
	if got := strings.Join(strings.Fields(text), " "); got != rule {
		t.Errorf("%q, want %q", got, rule)
	}
	for line := range strings.Lines(text) {
		if n := len(strings.TrimSpace(line)); n > 40 || n == 0 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if got := (&output.Page{}).Wrapped(rule, 20); got != rule {
		t.Errorf("not for a terminal: %q", got)
	}
}

func TestTheDoctorAdvisesTheCommandsOfTheGuide(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for kind, begins := range map[string]string{"fair": "ACL SETUSER app on >password ~fairlock:*", locks.Quorum: "ACL SETUSER app on >password ~quorum:*"} {
		_, block, _ := strings.Cut(string(text), begins)
		block, _, _ = strings.Cut(block, "```")
		commands := func(rule string) (all []string) {
			for word := range strings.FieldsSeq(rule) {
				if word[0] == '+' && word != "+client|setname" {
					all = append(all, word)
				}
			}
			slices.Sort(all)
			return all
		}
		if got, want := commands((&patient{kind: kind}).rule()), commands(block); len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%q\nthe guide has: %q", got, want)
		}
	}
}

func TestTheDoctorReadsVersions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		info string
		want status
		says string
	}{
		{"redis_version:7.0.15", good, "Redis 7.0.15"},
		{"redis_version:8.2.1", good, "Redis 8.2.1"},
		{"redis_version:6.2.14", wrong, "upgrade"},
		{"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1", good, "Valkey 8.0.1"},
		{"redis_version:7.2.4\r\nvalkey_version:7.1.9", wrong, "upgrade"},
		{"redis_version:7.4.0\r\ndragonfly_version:df-v1.27", note, "df-v1.27"},
		{"redis_version:unstable", good, "unstable"},
		{"", note, "does not tell"},
	} {
		p := &patient{info: fieldsOf(test.info)}
		if f := p.version(t.Context()); f.Status != test.want || !strings.Contains(f.Found+f.Do, test.says) {
			t.Errorf("%q: %+v", test.info, f)
		}
	}
}

func TestTheDoctorSeesAClockThatWasSet(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	for step, want := range map[time.Duration]status{0: good, time.Second: wrong, -time.Second: wrong} {
		p := &patient{rdb: rdb, clock: readClock(t.Context(), rdb)}
		p.clock.server = p.clock.server.Add(-step) // as if it had stepped forward since
		if f := p.clocks(t.Context()); f.Status != want || want == wrong && !strings.Contains(f.Do, "NTP") {
			t.Errorf("%v: %+v", step, f)
		}
	}
}
