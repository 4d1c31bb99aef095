package main

import "syscall"

// dieWithParent has the kernel kill the child when fairlock dies, even by SIGKILL.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
