//go:build !unix

package redistest

import (
	"errors"
	"syscall"
)

var errNoSignals = errors.New("this system cannot stop a process")

func dieWithParent() *syscall.SysProcAttr { return nil }

func (p *process) stop() error { return errNoSignals }

func (p *process) resume() error { return errNoSignals }

func (p *process) stopped() bool { return false }
