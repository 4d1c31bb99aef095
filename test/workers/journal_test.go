package workers

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"testing"
)

func everybody(string) bool { return true }

// wait and hold are what the scripts write.
func wait(place, ticket string) []string {
	return []string{"RPUSH", "fairlock:queue:{x}", place + ":" + ticket}
}

func back(place, ticket string) []string {
	return []string{"LINSERT", "fairlock:queue:{x}", "BEFORE", "whom", place + ":" + ticket}
}

func hold(token, ticket string) []string {
	return []string{"HSET", "fairlock:lock:{x}", "owner", "o", "token", token, "since", "1", "lease", "1", ticket, "1:1"}
}

const a, b, c = "A:1:30000::", "B:1:30000::", "C:1:30000::note"

func TestAJudgeSeesEveryInversion(t *testing.T) {
	for name, test := range map[string]struct {
		journal    Journal
		inversions int
	}{
		"in order": {Journal{wait("1", a), wait("2", b), hold("7", a), wait("3", c), hold("8", b), hold("9", c)}, 0},
		"two that join at once": {Journal{
			{"RPUSH", "fairlock:queue:{x}", "1:" + a, "2:" + b}, hold("7", b), hold("8", a),
		}, 1},
		"nobody waits":                    {Journal{hold("7", a), hold("8", b)}, 0},
		"the second before the first":     {Journal{wait("1", a), wait("2", b), hold("7", b), hold("8", a)}, 1},
		"put before the first":            {Journal{wait("1", a), {"LPUSH", "fairlock:queue:{x}", "2:" + b}, hold("7", b), hold("8", a)}, 1},
		"a newcomer before one in line":   {Journal{wait("1", a), hold("7", b), hold("8", a)}, 1},
		"dropped from line and forgotten": {Journal{wait("1", a), wait("2", b), {"LPOP", "fairlock:queue:{x}"}, hold("7", b)}, 1},
		"back in its place":               {Journal{wait("1", a), wait("2", b), {"LPOP", "fairlock:queue:{x}"}, back("1", a), hold("7", a), hold("8", b)}, 0},
		"back after its claim ran out":    {Journal{wait("1", a), wait("2", b), hold("7", a), back("1", a), hold("8", a), hold("9", b)}, 0},
		"a place made up":                 {Journal{wait("2", a), back("1", b), hold("7", b), hold("8", a)}, 1},
		"another lock":                    {Journal{wait("1", a), {"HSET", "fairlock:lock:{y}", "owner", "o", "token", "7", b, "1:1"}, hold("7", a)}, 0},
		"a renewal":                       {Journal{wait("1", a), {"HSET", "fairlock:lock:{x}", b, "1:1", "lease", "1"}, hold("7", a)}, 0},
	} {
		if v := test.journal.Judge("x", everybody); len(v.Inversions) != test.inversions {
			t.Errorf("%s: %q", name, v.Inversions)
		}
	}
}

func TestAJudgeListsGrantsAndWhoStillWaits(t *testing.T) {
	v := Journal{wait("1", a), wait("2", b), wait("3", c), hold("7", a)}.Judge("x", everybody)
	slices.Sort(v.Waiting)
	if !slices.Equal(v.Grants, []Grant{{7, "A:1"}}) || v.Queued != 1 || !slices.Equal(v.Waiting, []string{b, c}) {
		t.Fatalf("%+v", v)
	}
}

func TestAJudgeOfAPlainLockSeesAGrantWhileAnotherHadARecord(t *testing.T) {
	hold := func(token, ticket string) []string {
		return []string{"HSET", "fairlock:plain:lock:{x}", "owner", "o", "token", token, "since", "1", "lease", "1", ticket, "1:1"}
	}
	free := []string{"DEL", "fairlock:plain:lock:{x}"}
	v := Journal{hold("7", a), free, hold("8", b), hold("9", c), {"UNLINK", "fairlock:plain:lock:{x}"}, hold("10", a)}.JudgePlain("x")
	if len(v.Grants) != 4 || len(v.Overlaps) != 1 || len(v.Inversions) != 0 {
		t.Fatalf("%+v", v)
	}
}

func TestAJudgeLooksOnlyAtThoseWhoCount(t *testing.T) {
	noted := func(ticket string) bool { return strings.HasSuffix(ticket, "note") }
	v := Journal{wait("1", a), wait("2", c), hold("7", c), hold("8", a)}.Judge("x", noted)
	if len(v.Inversions) != 0 || len(v.Grants) != 1 {
		t.Fatalf("%+v", v)
	}
}

func TestCommandsAreReadAsRedisWritesThem(t *testing.T) {
	in := bufio.NewReader(strings.NewReader("*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n*1\r\n$4\r\nEXEC\r\n"))
	for _, want := range [][]string{{"GET", "a\r\nb"}, {"EXEC"}} {
		got, err := readCommand(in)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	}
	if _, err := readCommand(in); err != io.EOF {
		t.Fatalf("at the end: %v", err)
	}
}
