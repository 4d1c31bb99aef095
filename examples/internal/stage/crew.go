package stage

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// Crew has the processes of an example, for the process that plays. They tell it events of type E.
//
// All processes write to one pipe, each event in one piece. So events come in the order in which
// they were written, over all processes: if a process says that it leaves before it unlocks, this
// arrives before the next process says that it has entered. No clock is needed to see that two
// never overlap.
type Crew[E any] struct {
	stage   *Stage
	output  *os.File // the pipe
	input   *os.File
	told    chan told[E]
	over    chan struct{} // closed when events are not wanted any more
	reading chan struct{} // closed when everything has been read
	all     []*Process
}

type told[E any] struct {
	event E
	err   error
}

// NewCrew prepares for processes. They end with the example.
func NewCrew[E any](s *Stage) (*Crew[E], error) {
	input, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &Crew[E]{stage: s, output: output, input: input, told: make(chan told[E]), over: make(chan struct{}), reading: make(chan struct{})}
	go c.read()
	s.dismiss = append(s.dismiss, c.dismiss)
	return c, nil
}

func (c *Crew[E]) read() {
	defer close(c.reading)
	for lines := bufio.NewScanner(c.input); lines.Scan(); {
		var t told[E]
		if err := json.Unmarshal(lines.Bytes(), &t.event); err != nil {
			t.err = fmt.Errorf("a process said %q: %w", lines.Text(), err)
		}
		c.pass(t)
	}
}

func (c *Crew[E]) pass(t told[E]) {
	select {
	case c.told <- t:
	case <-c.over:
	}
}

// Next waits for an event. If a process ends without being told to, Next returns an error.
func (c *Crew[E]) Next(ctx context.Context) (E, error) {
	select {
	case t := <-c.told:
		return t.event, t.err
	case <-ctx.Done():
		var none E
		return none, context.Cause(ctx)
	}
}

// Start starts a process of this program that plays the example's role under the name.
func (c *Crew[E]) Start(name string) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var args []string
	if !c.stage.alone {
		args = []string{"-redis=" + c.stage.url, "-prefix=" + c.stage.Prefix}
	}
	flag.Visit(func(f *flag.Flag) {
		if f.Name != "redis" && f.Name != "prefix" {
			args = append(args, "-"+f.Name+"="+f.Value.String())
		}
	})
	p := &Process{Name: name, cmd: exec.Command(program, append(args, name)...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = c.output, os.Stderr, dieWithParent()
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := onThread(p.cmd.Start, func() { c.bury(p) }); err != nil {
		return nil, fmt.Errorf("starting process %s: %w", name, err)
	}
	c.all = append(c.all, p)
	return p, nil
}

// bury waits until p has ended.
func (c *Crew[E]) bury(p *Process) {
	_ = p.cmd.Wait() // p.cmd.ProcessState says all
	close(p.ended)
	if !p.meant.Load() {
		c.pass(told[E]{err: fmt.Errorf("process %s ended by itself: %v", p.Name, p.cmd.ProcessState)})
	}
}

// farewell is the time in which a process has to end by itself.
const farewell = 5 * time.Second

// dismiss ends all processes. It returns an error that names those that did not end well.
func (c *Crew[E]) dismiss() error {
	close(c.over)
	late := time.After(farewell)
	for _, p := range c.all {
		p.meant.Store(true)
		_ = p.stdin.Close() // fails only if it is closed already
	}
	var bad error
	for _, p := range c.all {
		select {
		case <-p.ended:
		case <-late:
			p.Kill()
			bad = errors.Join(bad, fmt.Errorf("process %s did not end within %v", p.Name, farewell))
		}
		if state := p.cmd.ProcessState; !state.Success() && !p.killed {
			bad = errors.Join(bad, fmt.Errorf("process %s: %v", p.Name, state))
		}
	}
	_ = c.output.Close() // the last copy of the pipe's end: now the reader comes to its end
	<-c.reading
	_ = c.input.Close()
	return bad
}
