//go:build !unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// dieWithParent does nothing here: only Linux can tie a child to its parent.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// child is a running command. Without process groups and signals, to end it is to kill it.
type child struct {
	process *os.Process
	ended   chan int       // its exit code, once
	stopped chan os.Signal // never
}

func start(cmd *exec.Cmd) (*child, error) {
	c := &child{ended: make(chan int, 1)}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.process = cmd.Process
	go func() {
		_ = cmd.Wait() // its exit code says it all
		c.ended <- cmd.ProcessState.ExitCode()
	}()
	return c, nil
}

func (c *child) signal(os.Signal)                { c.kill() }
func (c *child) quit()                           { c.kill() }
func (c *child) kill()                           { _ = c.process.Kill() } // fails only if it has ended
func (c *child) gone() bool                      { return true }
func (c *child) release()                        {}
func (c *child) suspend(os.Signal, func() error) {}
