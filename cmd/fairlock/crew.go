package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/process"
)

// crew is the demo's worker processes, from outside.
type crew struct {
	program string
	opening command
	events  chan event
	output  *os.File // the pipe that all workers write to
	input   *os.File
	reading chan struct{} // closed when all output was read
	over    chan struct{} // closed when nobody listens to events any more
	workers []*workerProcess
}

// workerProcess is one worker.
type workerProcess struct {
	number int
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	to     *json.Encoder
	done   chan struct{} // it is no more, and its connections are closed
	doomed bool          // its end is no surprise
}

// newCrew prepares for workers that open with the given command.
func newCrew(opening command) (*crew, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	input, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &crew{
		program: program, opening: opening, events: make(chan event, 1<<10), output: output, input: input,
		reading: make(chan struct{}), over: make(chan struct{}),
	}
	go c.read()
	return c, nil
}

// read takes in the events of all workers, in the order in which they were written.
func (c *crew) read() {
	defer close(c.reading)
	for lines := bufio.NewScanner(c.input); lines.Scan(); {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			e = event{Kind: onFailed, Result: fmt.Sprintf("a worker said %q: %v", lines.Text(), err)}
		}
		c.pass(e)
	}
}

func (c *crew) pass(e event) {
	select {
	case c.events <- e:
	case <-c.over:
	}
}

// hire starts the worker with this number, again if there was one.
func (c *crew) hire(number int) error {
	p := &workerProcess{number: number, done: make(chan struct{})}
	p.cmd = exec.Command(c.program, "demo-worker", strconv.Itoa(number))
	p.cmd.Stdout, p.cmd.Stderr = c.output, os.Stderr
	p.cmd.SysProcAttr = process.DieWithParent()
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	p.stdin, p.to = stdin, json.NewEncoder(stdin)
	if err := process.StartOnThread(p.cmd.Start, func() { c.bury(p) }); err != nil {
		return fmt.Errorf("starting a worker: %w", err)
	}
	if number < len(c.workers) {
		c.workers[number] = p
	} else {
		c.workers = append(c.workers, p)
	}
	p.send(c.opening)
	return nil
}

// bury waits for the end of p.
func (c *crew) bury(p *workerProcess) {
	err := p.cmd.Wait()
	close(p.done)
	c.pass(event{Kind: onEnded, Worker: p.number, Result: fmt.Sprint(err)})
}

// send gives p a command. If p is no more, that is told elsewhere.
func (p *workerProcess) send(c command) { _ = p.to.Encode(c) }

func (c *crew) sendAll(cmd command) {
	for _, p := range c.workers {
		p.send(cmd)
	}
}

// kill ends p with SIGKILL and returns when it is gone.
func (p *workerProcess) kill() {
	p.doomed = true
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.done
}

// farewell is how long workers have to leave their lines and end by themselves.
const farewell = 3 * time.Second

// dismiss ends all workers. Nothing may listen to events any more.
func (c *crew) dismiss() error {
	close(c.over)
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	for _, p := range c.workers {
		_ = p.stdin.Close() // fails only if it was closed
	}
	var bad error
	for _, p := range c.workers {
		select {
		case <-p.done:
		case <-ctx.Done():
			p.kill()
		}
		if state := p.cmd.ProcessState; !state.Success() {
			bad = errors.Join(bad, fmt.Errorf("worker %s did not end well: %v", letter(p.number), state))
		}
	}
	_ = c.output.Close() // the last copy: the reader comes to the end
	<-c.reading
	_ = c.input.Close()
	return bad
}

// letter is how a worker is called.
func letter(number int) string { return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[number : number+1] }
