//go:build !linux

package stage

import "syscall"

// dieWithParent does nothing here: only Linux can tie a child to its parent. The child still ends
// when its standard input does.
func dieWithParent() *syscall.SysProcAttr { return nil }

func dieStill() {}
