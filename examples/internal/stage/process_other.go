//go:build !linux

package stage

import "syscall"

// dieWithParent does nothing here: only Linux can tie a child to its parent. It still ends with its standard input.
func dieWithParent() *syscall.SysProcAttr { return nil }
