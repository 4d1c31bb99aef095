package redistest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// stopped says whether every thread has stopped: the thread that serves clients may have stopped
// while another still writes.
func (p *process) stopped() bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	if err != nil || len(stats) == 0 {
		return false
	}
	for _, path := range stats {
		if threadState(path) != 'T' {
			return false
		}
	}
	return true
}

// threadState returns the state letter of a stat file: "pid (name) S ...",
// where the name may hold anything, parentheses too. It returns 0 if there is
// no such thread any more.
func threadState(path string) byte {
	stat, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	if i := bytes.LastIndexByte(stat, ')'); i >= 0 && i+2 < len(stat) {
		return stat[i+2]
	}
	return 0
}
