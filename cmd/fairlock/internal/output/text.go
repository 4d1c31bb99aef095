package output

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fairlock/locks/cmd/fairlock/internal/look"
)

// Clean makes names and notes, which anybody may choose, harmless to a terminal.
func Clean(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return text
	}
	return strconv.Quote(text)
}

// Span formats a duration in milliseconds for people: 350ms, 3.4s, 2m13s, 4h5m, 3d4h.
func Span(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Second:
		return d.String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 24*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	hours := int64(d.Round(time.Hour) / time.Hour)
	return strconv.FormatInt(hours/24, 10) + "d" + strconv.FormatInt(hours%24, 10) + "h"
}

// At formats a time for people, in their time zone.
func At(t time.Time) string { return t.Local().Format(time.DateTime) }

// Count formats a number of things.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return look.Count(n) + " " + thing + "s"
}

// Milliseconds formats a duration for people.
func Milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 2, 64) + " ms"
}

// Percentile returns the duration that the given share of all does not exceed.
func Percentile(all []time.Duration, share float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[int(share*float64(len(sorted)-1))]
}
