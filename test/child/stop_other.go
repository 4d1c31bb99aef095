//go:build !unix

package child

import "errors"

var errNoSignals = errors.New("this system cannot stop a process")

// Stop fails here.
func Stop(int) error { return errNoSignals }

// Resume fails here.
func Resume(int) error { return errNoSignals }
