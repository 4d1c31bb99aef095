package host

import (
	"context"
	"encoding/json"
	"io"
	"net/rpc"
	"os"
	"os/exec"

	"github.com/fairlock/locks/bench/child"
	"github.com/fairlock/locks/bench/peers"
)

// WorkerArg is the first argument of a worker's process; the second is a Job. So this program knows
// that it is a worker.
const WorkerArg = "be-a-worker"

// Job is what a worker gets at its start.
type Job struct {
	Peer   string
	Config peers.Config
}

// Worker is a process that uses one peer. It answers calls over its standard input and output.
type Worker struct {
	*child.Process
	calls *rpc.Client
}

// wire is a worker's standard input and output.
type wire struct {
	io.Reader
	io.WriteCloser
}

// Hire starts a worker: another process of this program.
func Hire(job Job) (*Worker, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, WorkerArg, string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// StdoutPipe does not do: Wait would close the pipe under the reader.
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = theirs
	p, err := child.Start(cmd)
	_ = theirs.Close() // the child has a copy
	if err != nil {
		return nil, err
	}
	return &Worker{p, rpc.NewClient(wire{out, in})}, nil
}

// Call makes the worker do something and waits for its answer, or for the end of ctx.
func (w *Worker) Call(ctx context.Context, method string, args, reply any) error {
	select {
	case done := <-w.calls.Go("Worker."+method, args, reply, make(chan *rpc.Call, 1)).Done:
		return done.Error
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Fire kills the worker.
func (w *Worker) Fire() {
	w.Kill()
	_ = w.calls.Close() // closes only pipes
}

// Work serves calls as a worker, with the methods of service, until the parent process is gone.
func Work(service any) error {
	server := rpc.NewServer()
	if err := server.RegisterName("Worker", service); err != nil {
		return err
	}
	server.ServeConn(wire{os.Stdin, os.Stdout})
	return nil
}
