//go:build !linux

package workers

import "syscall"

// dieWithParent does nothing here: the worker ends when its standard input does.
func dieWithParent() *syscall.SysProcAttr { return nil }
