package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/poll"
	"github.com/fairlock/locks/test/redistest"
)

// offered is what completion offers, once it is as much as is wanted: completion has a second for
// the server, and if that is over, on a busy machine, it offers what it has by then.
func offered(want int, shell string, words ...string) (got []string) {
	poll.Until(patienceOfTests, func() bool {
		got = (&completeCommand{Shell: shell, Words: words}).lines()
		return len(got) >= want
	})
	return got
}

func TestCompletionKnowsVerbsFlagsChoicesLocksAndWaiters(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	take(t, locker, "order:42", fairlock.Note("web-1"))
	take(t, locker, "order:43")
	take(t, locker, "deploy@prod")
	take(t, locker, "a {b}*")
	take(t, locker, "not\nto be typed")
	take(t, plainLocker(t, s.Client(t)), "cache")
	waits(t, locker, "order:42", fairlock.Note("web-2"))
	id := inspect(t, locker, "order:42").Waiters[0].ID
	for _, test := range []struct{ line, want string }{
		{"fairlock fo", "force"},
		{"fairlock s", "show"},
		{"fairlock quorum ", "init"},
		{"fairlock quorum init --n", "--new"},
		{"fairlock ls --so", "--sort"},
		{"fairlock ls --sort ", "waiting held remaining name"},
		{"fairlock ls --sort=h", "held"},
		{"fairlock completion z", "zsh"},
		{"fairlock show order:4", "42 43"}, // bash ends the word at the colon
		{"fairlock show deploy@p", "prod"}, // and at this, as in a mail address
		{"fairlock show --json --prefix fairlock order:42", "42"},
		{`fairlock show "order:4`, "order:42 order:43"},
		{"fairlock show ca", "cache"},
		{"fairlock show --plain order", ""},
		{"fairlock force a", `a\ \{b\}\*`},
		{`fairlock force a\ `, `a\ \{b\}\*`},
		{"fairlock evict order:42 ", id},
		{"fairlock evict ca", ""},
		{"fairlock show x ", ""},
		{"fairlock show --redis redis://127.0.0.1:1 o", ""},
		{"fairlock show --redis ", ""},
		{"fairlock run x -- ca", ""},
		{"fairlock run c", ""},
		{"fairlock run  order:4", "42 43"}, // two spaces are as good as one
		{"fairlock run --plain c", "cache"},
		{"fairlock nothing ", ""},
		{"fairlock demo-", ""},
		{"", ""},
	} {
		// The line names the server, because all tests share the environment.
		line := regexp.MustCompile(`^fairlock (show|force|evict|run) `).ReplaceAllString(test.line, "${0}--redis redis://"+s.Addr()+" ")
		want := strings.Fields(test.want)
		if strings.Contains(test.want, `\`) {
			want = []string{test.want}
		}
		slices.Sort(want)
		got := offered(len(want), "bash", line)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q goes on with %q, want %q", test.line, got, want)
		}
	}
	server := "--redis=redis://" + s.Addr()
	if got := offered(1, "fish", "--", "show", server, "order:42"); !slices.Equal(got, []string{"order:42\tfair, held by web-1, 1 waiting"}) {
		t.Errorf("fish: %q", got)
	}
	if got := offered(1, "zsh", "--", "show", server, "order:42"); !slices.Equal(got, []string{`order\:42:fair, held by web-1, 1 waiting`}) {
		t.Errorf("zsh: %q", got)
	}
	if got := (&completeCommand{Shell: "fish", Words: []string{"--", ""}}).lines(); !slices.Contains(got, "doctor\tLook for what is wrong with the server, and say what to do about it.") || slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, "complete\t") }) {
		t.Errorf("commands: %q", got)
	}
}

func TestCompletionWaitsForNoServerThatHangs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Pause()
	defer s.Resume()
	at := "--redis=redis://" + s.Addr() + "?read_timeout=1h" // its own limit is sooner
	for _, words := range [][]string{{"show", at, ""}, {"evict", at, "x", ""}, {"run", at, ""}} {
		given := make(chan []string, 1)
		go func() { given <- (&completeCommand{Shell: "fish", Words: append([]string{"--"}, words...)}).lines() }()
		select {
		case got := <-given:
			if len(got) > 0 {
				t.Errorf("%q: %q", words, got)
			}
		case <-time.After(patienceOfTests):
			t.Fatalf("%q holds the keyboard", words)
		}
	}
}

// onPath puts the test binary into a directory under the name fairlock.
func onPath(t *testing.T) (dir string) {
	t.Helper()
	program, err := filepath.Abs(os.Args[0])
	must(t, err)
	dir = t.TempDir()
	must(t, os.Symlink(program, filepath.Join(dir, "fairlock")))
	return dir
}

func TestBashCompletesANameWithAColon(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	take(t, observer(t, s), "order:42")
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skipf("NOT SHOWN: no bash here: %v", err)
	}
	const script = `source <(fairlock completion bash); complete -p fairlock
COMP_LINE="$1" COMP_POINT=${#1}; _fairlock; printf '<%s>\n' "${COMPREPLY[@]}"`
	env := append(os.Environ(), asFairlock+"=1", "GORACE=atexit_sleep_ms=0", "FAIRLOCK_REDIS=redis://"+s.Addr(), "PATH="+onPath(t)+":"+os.Getenv("PATH"))
	var out []byte
	poll.Until(patienceOfTests, func() bool {
		cmd := exec.Command(bash, "--norc", "-c", script, "bash", "fairlock show ord")
		cmd.Env = env
		out, err = cmd.CombinedOutput()
		return !strings.Contains(string(out), "<>") // nothing is offered: its second was over
	})
	if want := "complete -o default -F _fairlock fairlock\n<order:42>\n"; err != nil || string(out) != want {
		t.Errorf("%q, %v", out, err)
	}
}

func TestEveryShellAcceptsItsScript(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text, err := shells.ReadFile("completion/" + shell)
		must(t, err)
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("NOT SHOWN: no %s here", shell)
			continue
		}
		cmd := exec.Command(path, "-n")
		cmd.Stdin = strings.NewReader(string(text))
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", shell, err, out)
		}
	}
}

func TestTheManualHasEveryVerbFlagAndExitCode(t *testing.T) {
	t.Parallel()
	model := parser(&cli{}).Model
	page := manual(model)
	plain := strings.NewReplacer(`\-`, "-", `\&`, "", `\(dq`, `"`, `\(aq`, "'", `\e`, `\`).Replace(page)
	must(t, kong.Visit(model.Node, func(node kong.Visitable, next kong.Next) error {
		switch node := node.(type) {
		case *kong.Node:
			if node.Hidden {
				return nil
			}
			if node.Parent != nil && len(node.Children) > 0 {
				return next(nil) // it is named with each of its commands
			}
			for line := range strings.Lines(strings.TrimSuffix(node.Help, ".") + "\n" + node.Detail) {
				if !strings.Contains(plain, strings.TrimRight(line, "\n")) {
					t.Errorf("the manual does not say %q", line)
				}
			}
		case *kong.Flag:
			if !strings.Contains(plain, "--"+node.Name) || node.Name != "help" && !strings.Contains(plain, node.Help) {
				t.Errorf("the manual does not tell of --%s", node.Name)
			}
		}
		return next(nil)
	}))
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Logf("NOT SHOWN: no groff here: %v", err)
		return
	}
	cmd := exec.Command(groff, "-man", "-Tutf8", "-ww", "-z")
	cmd.Stdin = strings.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v: %s", err, out)
	}
}

func TestEveryVerbThatNeedsAServerTellsItsExitCodesAndTheFormsOfAURL(t *testing.T) {
	t.Parallel()
	for _, command := range visible(parser(&cli{}).Model.Node) {
		if !slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return f.Name == "redis" }) {
			continue
		}
		var out strings.Builder
		// Parse does not stop after the help.
		_, _ = parser(&cli{}, kong.Writers(&out, io.Discard), kong.Exit(func(int) {})).Parse(append(strings.Fields(command.Path()), "--help"))
		text := out.String()
		for _, part := range []string{"64 ", "69 ", "unix://", "rediss://", "redis+cluster://", "master_name=NAME", "quorum:host", "--tls-ca"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s --help does not tell %q", command.Name, part)
			}
		}
	}
}
