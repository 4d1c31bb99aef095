package look

import (
	"math"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fairlock/locks/fairlock"
)

func TestNobodyCommandsTheTerminalWithANameOrANote(t *testing.T) {
	for text, want := range map[string]string{
		"order:42":            "order:42",
		"注文 🔒 é":              "注文 🔒 é",
		"\x1b[31mred\x1b[0m":  "·[31mred·[0m",
		"a\nb\tc\r\x00\x7f":   "a·b·c···",
		"\u202egnp.exe\u200b": "·gnp.exe·",
		"\x9b2J":              "·2J",
		"bad \xff utf8":       "bad · utf8",
	} {
		if got := Plain(text); got != want {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}

func TestADurationOfAnyLengthIsShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", time.Microsecond: "1µs", 999 * time.Microsecond: "999µs", 1500 * time.Microsecond: "1ms", 999 * time.Millisecond: "999ms",
		time.Second: "1.0s", 9999 * time.Millisecond: "9.9s", 10 * time.Second: "10s", 59999 * time.Millisecond: "59s",
		61 * time.Second: "1m01s", time.Hour - 1: "59m59s", 25*time.Hour - 1: "1d00h", 24*time.Hour - 1: "23h59m", 49 * time.Hour: "2d01h",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v is shown as %q, want %q", d, got, want)
		}
	}
	for d := time.Duration(1); d < 999*24*time.Hour; d += d/7 + 1 {
		if got := Span(d); utf8.RuneCountInString(got) > 7 {
			t.Errorf("%v is shown as %q", d, got)
		}
	}
}

func TestNumbersAreForPeople(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := Count(n); got != want {
			t.Errorf("%d is shown as %q", n, got)
		}
	}
	for n, want := range map[float64]string{0: "-", -1: "-", 0.01: "<0.1", 0.1: "0.1", 99.94: "99.9", 99.96: "100", 1234.5: "1,235", math.Pi: "3.1"} {
		if got := Rate(n); got != want {
			t.Errorf("%v is shown as %q", n, got)
		}
	}
}

func TestAHolderIsNamedByItsNoteOrElseByItself(t *testing.T) {
	for want, h := range map[string]*fairlock.Holder{
		"nobody":   nil,
		"the note": {Owner: "a:1", Note: "the note"},
		"a:1":      {Owner: "a:1"},
		"(the server lost data: kept for who had it)": {},
	} {
		if got := Holder(h); got != want {
			t.Errorf("%+v is shown as %q", h, got)
		}
	}
}
