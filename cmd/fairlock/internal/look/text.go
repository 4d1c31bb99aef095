package look

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
)

// Plain returns a name, an owner or a note in a form that is safe to print: the text cannot move
// the cursor, colour the screen or begin a line.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, text)
}

// Error returns what an error says, in the form of Plain and without what a server repeats of a
// password.
func Error(err error) string { return Plain(lua.Redacted(err.Error())) }

// JSON writes a value as a line of JSON. No text in it can affect a terminal.
func JSON(out io.Writer, value any) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	var text strings.Builder
	for _, r := range line.String() {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			text.WriteRune(r)
		default: // occurs only within a string
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&text, `\u%04x`, unit)
			}
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// Base64 is for text that JSON cannot hold, since it is not UTF-8: names, owners and notes are any
// bytes. Of other text it is "".
func Base64(text string) string {
	if utf8.ValidString(text) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(text))
}

// Who names a holder or a waiter: by the note or, without a note, by the owner.
func Who(note, owner string) string {
	if note == "" {
		return Plain(owner)
	}
	return Plain(note)
}

// Waiter names a waiter: by its note or, if somebody has named one, its owner. An owner that nobody
// has named is the id, which is shown beside. The name is not yet in a form that is safe to print.
func Waiter(id, owner, note string) string {
	switch named := owner != id; {
	case named && note != "":
		return owner + " (" + note + ")"
	case named:
		return owner
	}
	return note
}

// Holder describes the holder of a lock.
func Holder(h *fairlock.Holder) string {
	switch {
	case h == nil:
		return "nobody"
	case h.Owner == "":
		return "(the server lost data: kept for who had it)"
	default:
		return Who(h.Note, h.Owner)
	}
}

// Span formats a duration in at most seven characters.
func Span(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// Count formats a number with a comma for each thousand.
func Count(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", Count(n/1000), n%1000)
}

// Rate formats a number per second.
func Rate(perSecond float64) string {
	switch {
	case perSecond <= 0:
		return "-"
	case perSecond < 0.1:
		return "<0.1"
	case perSecond < 99.95:
		return fmt.Sprintf("%.1f", perSecond)
	default:
		return Count(int(perSecond + 0.5))
	}
}

// Token is the token of a hold, if it is known yet.
func Token(h *fairlock.Holder) string {
	if h.Undecided {
		return "not decided yet"
	}
	return strconv.FormatInt(h.Token, 10)
}
