//go:build unix && !linux

package main

import "syscall"

// dieWithParent does nothing here: only Linux can tie a child to its parent.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// adopt does nothing here: who has lost his parent is the system's.
func adopt() {}

// offspring is whether something lives in the child's process group. Who has left it is not to be found here.
func (c *child) offspring() (group bool, strays []int) { return c.groupExists(), nil }
