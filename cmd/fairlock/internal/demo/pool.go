package demo

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

// pool has the demo's worker processes, as the demo sees them.
type pool struct {
	program string
	opening request
	events  chan event
	output  *os.File // the pipe that all workers write to
	input   *os.File
	reading chan struct{} // closed when all output has been read
	over    chan struct{} // closed when the session takes no more events
	workers []*workerProcess
}

// workerProcess is one worker.
type workerProcess struct {
	number int
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	to     *json.Encoder
	done   chan struct{} // closed when the process has ended, and so its connections
	doomed bool          // its end is intended
}

// newPool prepares for workers that open with the given request.
func newPool(opening request) (*pool, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	input, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &pool{
		program: program, opening: opening, events: make(chan event, 1<<10), output: output, input: input,
		reading: make(chan struct{}), over: make(chan struct{}),
	}
	go p.read()
	return p, nil
}

// read receives the events of all workers, in the order in which they were written.
func (p *pool) read() {
	defer close(p.reading)
	for lines := bufio.NewScanner(p.input); lines.Scan(); {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			e = event{Kind: onFailed, Result: fmt.Sprintf("a worker said %q: %v", lines.Text(), err)}
		}
		p.pass(e)
	}
}

func (p *pool) pass(e event) {
	select {
	case p.events <- e:
	case <-p.over:
	}
}

// start starts the worker with this number, also a second time.
func (p *pool) start(number int) error {
	w := &workerProcess{number: number, done: make(chan struct{})}
	w.cmd = exec.Command(p.program, "demo-worker", strconv.Itoa(number))
	w.cmd.Stdout, w.cmd.Stderr = p.output, os.Stderr
	w.cmd.SysProcAttr = process.DieWithParent()
	stdin, err := w.cmd.StdinPipe()
	if err != nil {
		return err
	}
	w.stdin, w.to = stdin, json.NewEncoder(stdin)
	if err := process.StartOnThread(w.cmd.Start, func() { p.reap(w) }); err != nil {
		return fmt.Errorf("starting a worker: %w", err)
	}
	if number < len(p.workers) {
		p.workers[number] = w
	} else {
		p.workers = append(p.workers, w)
	}
	w.send(p.opening)
	return nil
}

// reap waits until w has ended.
func (p *pool) reap(w *workerProcess) {
	err := w.cmd.Wait()
	close(w.done)
	p.pass(event{Kind: onEnded, Worker: w.number, Result: fmt.Sprint(err)})
}

// send gives w a request. If w has ended, an event says so.
func (w *workerProcess) send(r request) { _ = w.to.Encode(r) }

func (p *pool) sendAll(r request) {
	for _, w := range p.workers {
		w.send(r)
	}
}

// kill ends w with SIGKILL and returns when w is gone.
func (w *workerProcess) kill() {
	w.doomed = true
	_ = w.cmd.Process.Kill() // fails only if it has ended
	<-w.done
}

// farewell is the time that workers have to leave their lines and to end by themselves.
const farewell = 3 * time.Second

// stop ends all workers. It must come after the last call of next.
func (p *pool) stop() error {
	close(p.over)
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	for _, w := range p.workers {
		_ = w.stdin.Close() // fails only if it was closed
	}
	var bad error
	for _, w := range p.workers {
		select {
		case <-w.done:
		case <-ctx.Done():
			w.kill()
		}
		if state := w.cmd.ProcessState; !state.Success() {
			bad = errors.Join(bad, fmt.Errorf("worker %s did not end well: %v", letter(w.number), state))
		}
	}
	_ = p.output.Close() // the last copy of the pipe's end: now the reader comes to its end
	<-p.reading
	_ = p.input.Close()
	return bad
}

// letter returns the name of a worker.
func letter(number int) string { return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[number : number+1] }
