package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fairlock/locks/test/redistest"
)

// nobody is a user that no process of the tests has.
const nobody = 65534

// asNobody makes a place where nobody finds two programs: fairlock, which is this test binary, and
// elevated, which runs a command as root, as sudo does. It skips the test where that does not work.
func asNobody(t *testing.T) (us, elevated string, user *syscall.SysProcAttr) {
	t.Helper()
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("NOT SHOWN: it takes root, and setpriv")
	}
	dir, err := os.MkdirTemp("", "") //nolint:usetesting // nobody may not enter that of a test
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // the test has ended
	must(t, os.Chmod(dir, 0o755))               //nolint:gosec // nobody has to enter it
	us, elevated = filepath.Join(dir, "fairlock"), filepath.Join(dir, "elevated")
	for from, to := range map[string]string{os.Args[0]: us, setpriv: elevated} {
		program, err := os.ReadFile(from)
		must(t, err)
		must(t, os.WriteFile(to, program, 0o755)) //nolint:gosec // nobody runs it
	}
	must(t, os.Chmod(elevated, 0o755|os.ModeSetuid))
	user = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	cmd := exec.Command(elevated, "--reuid=0", "id", "-r", "-u")
	cmd.Dir, cmd.SysProcAttr = dir, user
	if out, err := cmd.Output(); err != nil || string(out) != "0\n" {
		t.Skipf("NOT SHOWN: nobody becomes root here: %q, %v", out, err)
	}
	return us, elevated, user
}

func TestThatACommandOfAnotherUserCannotBeEndedIsSaidOnce(t *testing.T) {
	t.Parallel()
	us, elevated, user := asNobody(t)
	s := redistest.Start(t)
	const script = `trap "" TERM; echo in; read line`
	for about, command := range map[string][]string{
		"the command":            {elevated, "--reuid=0", "sh", "-c", script},
		"a child of the command": {"sh", "-c", `exec 3<&0; "$0" --reuid=0 sh -c "$1" <&3 & wait`, elevated, script},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			p := fairlockWith(t, []string{"FAIRLOCK_REDIS=redis://" + s.Addr()}, append([]string{"run", "--lease", "3s", t.Name(), "--"}, command...)...)
			p.cmd.Path, p.cmd.Dir, p.cmd.SysProcAttr = us, filepath.Dir(us), user
			p.start()
			p.says("in")
			must(t, observer(t, s).ForceUnlock(t.Context(), t.Name()))
			eventually(t, "it says so", func() bool { return strings.Contains(p.stderr.String(), "cannot be ended") })
			must(t, p.stdin.Close())
			p.ends(76)
			if text := p.stderr.String(); strings.Count(text, "cannot be ended, and goes on without the lock") != 1 {
				t.Errorf("stderr: %s", text)
			}
		})
	}
}
