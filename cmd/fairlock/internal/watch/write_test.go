package watch

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func written(events ...Event) string {
	var out bytes.Buffer
	_ = WriteText(&out, events, false, func(_ Kind, text string) string { return text })
	return out.String()
}

func TestEachEventIsOneLineForPeople(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 4, 5, 678_000_000, time.Local)
	for want, e := range map[string]Event{
		"15:04:05.678  granted    job 7   token 12   waited 1.5s   3 waiting":                          {Kind: Granted, Owner: "a:1", Note: "job 7", Token: 12, Waited: 1500 * time.Millisecond, Waiting: 3, Remaining: time.Second},
		"15:04:05.678  came       a:1   at 1,200   1,200 waiting":                                      {Kind: Came, Owner: "a:1", Position: 1200, Waited: time.Millisecond, Waiting: 1200},
		"15:04:05.678  standing   nobody has it   0 waiting":                                           {Kind: Standing},
		"15:04:05.678  standing   a·[2J has it   token 9   held 1m00s   lease ends in 29s   0 waiting": {Kind: Standing, Owner: "a\x1b[2J", Token: 9, Held: time.Minute, Remaining: 29 * time.Second},
		"15:04:05.678  unseen     somebody had it between two looks   token 9   0 waiting":             {Kind: Unseen, Token: 9},
		"15:04:05.678  forgotten  the server lost data; a had it   0 waiting":                          {Kind: Forgotten, Owner: "a"},
		"15:04:05.678  forgotten  the server lost data, and waits for who had it   0 waiting":          {Kind: Forgotten},
	} {
		e.At = now
		if got := written(e); got != want+"\n" {
			t.Errorf("got  %swant %s", got, want)
		}
	}
}

func TestNothingIsSaidOfTheLineOfAPlainLock(t *testing.T) {
	var out bytes.Buffer
	e := Event{At: time.Date(2026, 1, 2, 15, 4, 5, 0, time.Local), Kind: Standing}
	if err := WriteText(&out, []Event{e}, true, func(_ Kind, text string) string { return text }); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "15:04:05.000  standing   nobody has it\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestACrowdThatComesAtOnceIsOneLineForPeopleAndEachOneForPrograms(t *testing.T) {
	var events []Event
	for i := range 2000 {
		events = append(events, Event{Kind: Came, Position: i + 1, Waiting: 2000})
	}
	events = append(events, Event{Kind: Left, Owner: "a", Waiting: 2000})
	if got := written(events...); strings.Count(got, "\n") != 2 || !strings.Contains(got, "2,000 waiters") || !strings.Contains(got, "left") {
		t.Errorf("got %q", got)
	}
	var out bytes.Buffer
	if err := WriteJSON(&out, events); err != nil || strings.Count(out.String(), "\n") != 2001 {
		t.Error(err, out.Len())
	}
}

func TestAnEventForProgramsHasWhatIsKnownInMilliseconds(t *testing.T) {
	var out bytes.Buffer
	e := Event{At: time.UnixMilli(1).In(time.FixedZone("elsewhere", 3600)), Lock: "<x>", Kind: Granted, ID: "i", Owner: "o", Note: "n", Token: 1 << 50, Waited: 1500 * time.Microsecond, Held: time.Second, Remaining: time.Minute}
	if err := WriteJSON(&out, []Event{e, {At: e.At, Lock: "y", Kind: Unseen}}); err != nil {
		t.Fatal(err)
	}
	want := `{"at":"1970-01-01T00:00:00.001Z","lock":"<x>","event":"granted","id":"i","owner":"o","note":"n","token":1125899906842624,"waiting":0,"waited_ms":1,"held_ms":1000,"remaining_ms":60000}
{"at":"1970-01-01T00:00:00.001Z","lock":"y","event":"unseen","waiting":0}
`
	if out.String() != want {
		t.Errorf("got  %s\nwant %s", out.String(), want)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWhatCannotBeWrittenIsAnError(t *testing.T) {
	if WriteJSON(full{}, []Event{{}}) == nil || WriteText(full{}, []Event{{}}, false, func(_ Kind, text string) string { return text }) == nil {
		t.Error("nobody was told")
	}
}
