//go:build !linux

package child

import "syscall"

// dieWithParent does nothing here: only Linux can tie a child to its parent. Workers end when their
// standard input does.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
