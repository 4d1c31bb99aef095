//go:build !unix

package run

import (
	"os"
	"os/exec"
)

// child is a running command. Without process groups and signals, fairlock can end it only by
// killing it.
type child struct {
	process *os.Process
	code    int // its exit code, once ended is closed
	ended   chan struct{}
	stopped chan os.Signal // never
	halted  chan os.Signal // never
}

func start(cmd *exec.Cmd) (*child, error) {
	c := &child{ended: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.process = cmd.Process
	go func() {
		_ = cmd.Wait() // the exit code says all
		c.code = cmd.ProcessState.ExitCode()
		close(c.ended)
	}()
	return c, nil
}

func (c *child) pass(os.Signal)    { c.kill() }
func (c *child) quit()             { c.kill() }
func (c *child) kill()             { _ = c.process.Kill() } // fails only if the process has ended
func (c *child) isRefused() bool   { return false }
func (c *child) gone() bool        { return true }
func (c *child) interrupted() bool { return false }
func (c *child) release()          {}
func (c *child) halt()             {}

func (c *child) suspend(os.Signal, func() error, func()) {}
