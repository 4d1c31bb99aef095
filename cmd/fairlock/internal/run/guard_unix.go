//go:build unix

package run

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// guard is a shell that waits for our end. If that is not a regular one (kill -9), it kills the
// command's process group, which would go on without the lock otherwise. A nil guard does nothing.
type guard struct {
	cmd  *exec.Cmd
	line io.WriteCloser // ends when we do
}

// duty is what the guard does: it is told the group, and then nothing more.
const duty = `trap "" HUP INT TERM; read -r group && { read -r nothing; kill -s KILL -- "-$group"; }`

// post posts a guard, or none where there is no shell.
func post() *guard {
	g := &guard{cmd: exec.Command("/bin/sh", "-c", duty)}
	g.cmd.Dir, g.cmd.Env = "/", []string{}
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what is typed at the terminal is not for the guard
	var err error
	if g.line, err = g.cmd.StdinPipe(); err != nil {
		return nil
	}
	if err = g.cmd.Start(); err != nil {
		return nil
	}
	return g
}

// over tells the guard whom to watch over.
func (g *guard) over(group int) {
	if g != nil {
		fmt.Fprintln(g.line, group)
	}
}

// pid is the guard's own.
func (g *guard) pid() int {
	if g == nil {
		return 0
	}
	return g.cmd.Process.Pid
}

// dismiss sends the guard home.
func (g *guard) dismiss() {
	if g != nil {
		_ = g.cmd.Process.Kill() // both fail if it is gone already, and buried by the child's watch
		_ = g.cmd.Wait()
	}
}
