//go:build unix && !linux

package redistest

import (
	"os/exec"
	"strconv"
	"strings"
)

// stopped asks ps, the portable way to see a process's state.
func (p *process) stopped() bool {
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(p.cmd.Process.Pid)).Output()
	return err == nil && strings.HasPrefix(strings.TrimSpace(string(out)), "T")
}
