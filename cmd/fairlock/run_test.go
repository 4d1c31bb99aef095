package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

func TestTheCommandsExitCodeIsPassedOn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for script, want := range map[string]int{
		"exit 0":         0,
		"exit 7":         7,
		"exit 75":        75,
		"kill -TERM $$":  143,
		"kill -KILL $$":  137,
		"kill -USR1 $$":  128 + 10,
		"exec 'a, b' -c": 127, // the exit code is sh's, not fairlock's
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			p := launch(t, s, "run", script, "--", "sh", "-c", script+" 2>/dev/null")
			p.ends(want)
			if text := p.stderr.String(); text != "" {
				t.Errorf("stderr: %q", text)
			}
		})
	}
}

func TestACommandLineThatMakesNoSenseIs64(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{},
		{"fly"},
		{"run"},
		{"run", "x"},
		{"run", "x", "--"},
		{"run", "x", "true"},
		{"run", "--fast", "x", "--", "true"},
		{"run", "x", "--wiat", "5s", "--", "true"},
		{"run", "--wait", "soon", "x", "--", "true"},
		{"run", "--wait=-1s", "x", "--", "true"},
		{"run", "--lease", "3", "x", "--", "true"},
		{"run", "--lease", "1ms", "x", "--", "true"},
		{"run", "--kill-after=-1s", "x", "--", "true"},
		{"run", "--lease", "1m", "--fixed-lease", "1m", "x", "--", "true"},
		{"run", "", "--", "true"},
		{"run", "--redis", "http://:secret@127.0.0.1", "x", "--", "true"},
		{"run", "--redis", "redis://:sec%ret@127.0.0.1", "x", "--", "true"},
		{"demo", "--workers", "1"},
		{"demo", "--redis", "127.0.0.1:port"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			p := fairlockWith(t, []string{"FAIRLOCK_REDIS=redis://127.0.0.1:1"}, args...).start()
			p.ends(64)
			p.complains()
			if strings.Contains(p.stderr.String(), "sec") {
				t.Errorf("the password is shown: %s", p.stderr.String())
			}
		})
	}
}

func TestACommandThatCannotBeRunIs126Or127(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain, script := filepath.Join(dir, "plain"), filepath.Join(dir, "script")
	must(t, os.WriteFile(plain, []byte("text"), 0o600))
	must(t, os.WriteFile(script, []byte("#!/no/such/shell\n"), 0o700)) //nolint:gosec // it must be executable
	s := redistest.Start(t)
	locker := observer(t, s)
	for command, want := range map[string]int{
		"no-such-program":          127,
		filepath.Join(dir, "none"): 127,
		script:                     127,
		plain:                      126,
		dir:                        126,
	} {
		t.Run(filepath.Base(command), func(t *testing.T) {
			p := launch(t, s, "run", "x", "--", command)
			p.ends(want)
			p.complains(command)
			if inspect(t, locker, "x").Holder != nil {
				t.Error("the lock is still held")
			}
		})
	}
}

func TestAServerThatIsNotThereOrNoUseIs69(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "sesame")
	must(t, s.Client(t).Set(t.Context(), "fairlock:lock:{stolen}", "no hash", 0).Err())
	for what, test := range map[string]struct{ address, name, says string }{
		"nobody listens": {"127.0.0.1:1", "x", "connection refused"},
		"no password":    {s.Addr(), "x", "NOAUTH"},
		"wrong password": {":open@" + s.Addr(), "x", "WRONGPASS"},
		"another's key":  {":sesame@" + s.Addr(), "stolen", "WRONGTYPE"},
	} {
		for _, wait := range []string{"0", "10s", "forever"} {
			t.Run(what+" wait "+wait, func(t *testing.T) {
				t.Parallel()
				p := fairlockWith(t, nil, "run", "--redis", "redis://"+test.address, "--wait", wait, test.name, "--", "true").start()
				p.ends(69)
				p.complains(test.says, test.name, "(the server is "+test.address[strings.Index(test.address, "@")+1:]+")")
			})
		}
	}
}

func TestALockThatIsNotFreeInTimeIs75AndSaysWhoHasIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := launch(t, s, "run", "nightly", "--", "sh", "-c", "echo in; read line")
	holder.says("in")
	for _, wait := range []string{"0", "5s"} {
		p := launch(t, s, "run", "--wait", wait, "nightly", "--", "echo", "never")
		p.ends(75)
		p.complains("nightly", fmt.Sprintf(":%d sh since", holder.cmd.Process.Pid))
		if rest := p.rest(); len(rest) > 0 {
			t.Errorf("it ran: %q", rest)
		}
	}
	inLine(t, observer(t, s), "nightly", 0)
	must(t, holder.stdin.Close())
	holder.ends(1)
}

func TestTheCommandHasTheStreamsAndKnowsNameAndToken(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	script := `echo "$FAIRLOCK_NAME" "$FAIRLOCK_TOKEN" "$1"; read line; echo "read $line"; echo wrong >&2`
	p := launch(t, s, "run", "order:42", "--", "sh", "-c", script, "sh", "a,b --lease x")
	token := inspectUntilHeld(t, locker, "order:42")
	p.says(fmt.Sprintf("order:42 %d a,b --lease x", token))
	fmt.Fprintln(p.stdin, "hello")
	p.says("read hello")
	p.ends(0)
	if got := p.stderr.String(); got != "wrong\n" {
		t.Errorf("stderr: %q", got)
	}
	if inspect(t, locker, "order:42").Holder != nil {
		t.Error("the lock is still held")
	}
}

func TestTheCommandLineArrivesToTheByteAlsoWhereItIsNoUTF8(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const name, file, note = "caf\xe9", "r\xe9sum\xe9 \xff", "na\xefve"
	p := launch(t, s, "run", "--note", note, name, "--", "sh", "-c", `printf '%s|%s\n' "$FAIRLOCK_NAME" "$1"; read line`, "sh", file)
	p.says(name + "|" + file)
	locker := observer(t, s)
	if h := inspect(t, locker, name).Holder; h == nil || !strings.HasSuffix(h.Note, " "+note) {
		t.Errorf("the lock's holder: %+v", h)
	}
	take(t, locker, "caf\xe8") // another lock
	launch(t, s, "show", name).ends(0)
	launch(t, s, "force", name).ends(0)
	p.ends(76)
}

func TestNobodyIsToldHowManyWaitForAPlainLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	take(t, plainLocker(t, s.Client(t)), "x", fairlock.Note("me"))
	p := launch(t, s, "run", "--plain", "--wait", "0", "x", "--", "true")
	p.ends(75)
	p.complains("held by me since")
	if text := p.stderr.String() + prints(t, s, 0, "top", "--plain", "--once"); strings.Contains(text, " waiting") {
		t.Error(text)
	}
}

func TestRunTakesTheLockUnderThePrefixThatTheOtherVerbsLookUnder(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	env := []string{"FAIRLOCK_REDIS=redis://" + s.Addr(), "FAIRLOCK_PREFIX=shop"}
	for _, flags := range [][]string{{"--plain"}, {}, {"--prefix", "till"}} {
		p := fairlockWith(t, env, append(append([]string{"run"}, flags...), "x", "--", "sh", "-c", "echo in; read line")...).start()
		p.says("in")
		shown := fairlockWith(t, env, append([]string{"ls"}, flags...)...).start()
		shown.ends(0)
		if text := strings.Join(shown.rest(), "\n"); !strings.Contains(text, "sh") {
			t.Errorf("%v: ls shows %s", flags, text)
		}
		must(t, p.stdin.Close())
		p.ends(1)
	}
	if found := s.Client(t).Keys(t.Context(), "fairlock:*").Val(); len(found) > 0 {
		t.Errorf("under the default prefix: %v", found)
	}
}

func TestHelpTellsTheExitCodes(t *testing.T) {
	t.Parallel()
	p := fairlockWith(t, nil, "run", "--help").start()
	p.ends(0)
	text := strings.Join(p.rest(), "\n")
	for _, part := range []string{"run [flags] <name> -- <command>", "64 ", "69 ", "75 ", "76 ", "126 ", "127 ", "128+n", "FAIRLOCK_TOKEN"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}
