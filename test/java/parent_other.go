//go:build !linux

package java

import "syscall"

// dieWithParent does nothing here: the JVM ends when its standard input does.
func dieWithParent() *syscall.SysProcAttr { return nil }
