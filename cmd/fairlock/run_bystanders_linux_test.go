package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fairlock/locks/test/redistest"
)

// becoming starts a shell whose script turns into $FAIRLOCK, in an empty directory. Like the shell
// of a person or of cron it leads a process group.
func becoming(t *testing.T, s *redistest.Server, shell, script string) *tool {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("NOT SHOWN: %v", err)
	}
	p := fairlockWith(t, []string{"FAIRLOCK_REDIS=redis://" + s.Addr(), "FAIRLOCK=" + os.Args[0]})
	p.cmd.Path, p.cmd.Args, p.cmd.Dir = path, []string{shell, "-c", script}, t.TempDir()
	p.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	return p.start()
}

func TestTheEndOfAPipeThatTheShellHasMadeMayFinishItsWork(t *testing.T) {
	t.Parallel()
	const script = `"$FAIRLOCK" run x -- echo hi > >(cat >/dev/null; echo all >marker)`
	p := becoming(t, redistest.Start(t), "bash", script)
	p.ends(0)
	if text := p.stderr.String(); text != "" {
		t.Errorf("stderr: %q", text)
	}
	eventually(t, "the end of the pipe is done", func() bool {
		text, _ := os.ReadFile(filepath.Join(p.cmd.Dir, "marker"))
		return string(text) == "all\n"
	})
}

func TestWhatTheShellHadStartedBeforeTheCommandLivesOn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, script := range map[string]string{
		"a child": `sleep 60 & echo $!; exec "$FAIRLOCK" run "$PWD" -- true`,
		"one in a group of its own (a job, timeout)": `timeout 60 sh -c 'echo $$; exec sleep 60' & sleep 0.1
			exec "$FAIRLOCK" run "$PWD" -- true`,
		"what such a one starts while the command runs": `mkfifo go; timeout 60 sh -c 'read line <go; sleep 60 & echo $!; wait' & sleep 0.1
			exec "$FAIRLOCK" run "$PWD" -- sh -c 'echo now >go; sleep 0.1'`,
		"what a child leaves behind while the command runs": `mkfifo go; sh -c 'read line <go; sleep 60 & echo $!' &
			exec "$FAIRLOCK" run "$PWD" -- sh -c 'echo now >go; sleep 0.1'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := becoming(t, s, "sh", script)
			pid, err := strconv.Atoi(p.line())
			must(t, err)
			defer func() { _ = unix.Kill(pid, unix.SIGKILL) }()
			p.ends(0)
			if text := p.stderr.String(); text != "" {
				t.Errorf("stderr: %q", text)
			}
			if !alive(pid) {
				t.Error("it was ended")
			}
		})
	}
}
