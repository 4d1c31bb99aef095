//go:build !unix

package stage

import "errors"

// Become returns an error: this system starts programs in processes of their own.
func Become(...string) error { return errors.ErrUnsupported }

// Pause returns an error: this system cannot stop a process.
func (p *Process) Pause() error { return errors.ErrUnsupported }

// Resume returns an error.
func (p *Process) Resume() error { return errors.ErrUnsupported }
