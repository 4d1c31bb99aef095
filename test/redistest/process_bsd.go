//go:build unix && !linux

package redistest

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent does nothing here: only Linux can tie a child to its parent.
func dieWithParent() *syscall.SysProcAttr { return nil }

// stopped asks ps, the portable way to see a process's state.
func (p *process) stopped() bool {
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(p.cmd.Process.Pid)).Output()
	return err == nil && strings.HasPrefix(strings.TrimSpace(string(out)), "T")
}
