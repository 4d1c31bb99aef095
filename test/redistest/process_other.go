//go:build !unix

package redistest

import "errors"

var errNoSignals = errors.New("this system cannot stop a process")

func (p *process) stop() error { return errNoSignals }

func (p *process) resume() error { return errNoSignals }

func (p *process) stopped() bool { return false }
