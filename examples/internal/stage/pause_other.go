//go:build !unix

package stage

import "errors"

// Pause is an error: here nobody can stop a process.
func (p *Process) Pause() error { return errors.ErrUnsupported }

// Resume is an error.
func (p *Process) Resume() error { return errors.ErrUnsupported }
