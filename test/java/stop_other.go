//go:build !unix

package java

import "errors"

var errNoSignals = errors.New("this system cannot stop a process")

func stop(int) error { return errNoSignals }

func resume(int) error { return errNoSignals }
