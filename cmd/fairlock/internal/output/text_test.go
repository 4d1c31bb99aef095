package output

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlock/locks/cmd/fairlock/internal/look"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestASpanIsShort(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0s": 0, "350ms": 350 * time.Millisecond, "3.4s": 3420 * time.Millisecond, "27s": 27 * time.Second, "2m13s": 133 * time.Second,
		"4h5m": 4*time.Hour + 5*time.Minute, "3d4h": 76 * time.Hour,
	} {
		if got := Span(d.Milliseconds()); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestPercentilesAndNumbersForPeople(t *testing.T) {
	t.Parallel()
	var all []time.Duration
	for n := range 100 {
		all = append(all, time.Duration(100-n))
	}
	if Percentile(all, 0.5) != 50 || Percentile(all, 0.99) != 99 || Percentile(nil, 0.5) != 0 || Percentile(all[:1], 0.99) != 100 {
		t.Errorf("%d %d", Percentile(all, 0.5), Percentile(all, 0.99))
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 2005: "2,005", 1234567: "1,234,567"} {
		if got := look.Count(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func TestAColumnThatBendsIsNeverWiderThanWhatStandsInIt(t *testing.T) {
	p := &Page{Width: 20}
	lines := Table{Bends: 1}
	lines.Add("NAME", "WHO", "ID")
	lines.Add("nightly", "me", "0123456789")
	p.Table(lines)
	if got, want := p.text.String(), "NAME     WHO  ID\nnightly  me   0123456789\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
