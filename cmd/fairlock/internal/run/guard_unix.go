//go:build unix

package run

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// guard is a shell that waits for fairlock's end. If fairlock was killed (kill -9), the guard kills
// the command's process group, which would otherwise go on without the lock. A nil guard does
// nothing.
type guard struct {
	cmd  *exec.Cmd
	line io.WriteCloser // ends when fairlock does
}

// duty is the guard's script: it reads the group, and after that nothing more.
const duty = `trap "" HUP INT TERM; read -r group && { read -r nothing; kill -s KILL -- "-$group"; }`

// post starts a guard. It returns nil where there is no shell.
func post() *guard {
	g := &guard{cmd: exec.Command("/bin/sh", "-c", duty)}
	g.cmd.Dir, g.cmd.Env = "/", []string{}
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what is typed at the terminal must not reach the guard
	var err error
	if g.line, err = g.cmd.StdinPipe(); err != nil {
		return nil
	}
	if err = g.cmd.Start(); err != nil {
		return nil
	}
	return g
}

// over tells the guard which group to watch over.
func (g *guard) over(group int) {
	if g != nil {
		fmt.Fprintln(g.line, group)
	}
}

// pid returns the guard's process id.
func (g *guard) pid() int {
	if g == nil {
		return 0
	}
	return g.cmd.Process.Pid
}

// dismiss ends the guard.
func (g *guard) dismiss() {
	if g != nil {
		kill(g.cmd)
	}
}

// kill ends a helper of ours.
func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // both fail if it has ended and the child's watch has waited for it
	_ = cmd.Wait()
}
