//go:build !unix

package stage

import "errors"

// Pause returns an error: this system cannot stop a process.
func (p *Process) Pause() error { return errors.ErrUnsupported }

// Resume returns an error.
func (p *Process) Resume() error { return errors.ErrUnsupported }
