package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/fairlock/locks/test/redistest"
)

func TestBashFindsNothingButTextInTheNameOfAStrangersLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	names := []string{`or 4$(evil)`, "or 4`evil`", `or 4"; evil; "`, `or 4'; evil; '`, `or 4!evil`, `or 4${evil}`, `or 4\`}
	for _, name := range names {
		take(t, locker, name)
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skipf("NOT SHOWN: no bash here: %v", err)
	}
	for _, test := range []struct {
		typed, before, after string // what is typed, and what then stands around the completion
		not                  string // names with this cannot be written so
	}{
		{`"or`, `"`, `"`, "!"},
		{`'or`, `'`, `'`, "'"},
		{`"o"r`, "", "", "\n"},
		{`'o'r`, "", "", "\n"},
		{`or`, "", "", "\n"},
	} {
		var got, want []string
		for _, name := range names {
			if !strings.Contains(name, test.not) {
				want = append(want, name)
			}
		}
		for _, line := range offered(len(want), "bash", "fairlock show --redis redis://"+s.Addr()+" "+test.typed) {
			cmd := exec.Command(bash, "--norc", "-c", "evil() { echo EVIL; }; printf %s "+test.before+line+test.after)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s goes on with %q: %v: %s", test.typed, line, err, out)
			}
			got = append(got, string(out))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s goes on with what bash reads as %q, want %q", test.typed, got, want)
		}
	}
}
