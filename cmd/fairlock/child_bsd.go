//go:build unix && !linux

package main

import "syscall"

// dieWithParent does nothing here: only Linux can tie a child to its parent.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
