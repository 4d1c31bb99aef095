//go:build !linux

package child

import "syscall"

// dieWithParent does nothing here: a child that reads its standard input ends when that does.
func dieWithParent() *syscall.SysProcAttr { return nil }
