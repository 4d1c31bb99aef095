//go:build !linux

package process

import "syscall"

// DieWithParent does nothing here: only Linux can tie a child to its parent.
func DieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
