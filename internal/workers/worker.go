package workers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience bounds every wait for a worker. Nothing should come near it.
const Patience = 60 * time.Second

// Worker is the test's handle on a worker process. Its methods belong to the test's own goroutine.
type Worker struct {
	tb      testing.TB
	name    string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stdout  io.Reader
	stderr  bytes.Buffer  // may be read once done is closed
	done    chan struct{} // closed when the process has ended and been reaped
	last    int           // command
	expects bool          // it ends because the test wants it to

	mu    sync.Mutex    // guards calls
	calls map[int]*Call // by ID of the command
}

// Start starts a worker that uses the server at addr and returns when it is ready. name is for messages. The worker is
// killed when the test ends; what it complained of until then fails the test.
func Start(tb testing.TB, name, addr string, lease time.Duration) *Worker {
	tb.Helper()
	return launch(tb, name, command{Do: open, Addr: addr, Lease: lease})
}

// StartPlain is Start of a worker whose locks have no line.
func StartPlain(tb testing.TB, name, addr string, lease time.Duration) *Worker {
	tb.Helper()
	return launch(tb, name, command{Do: open, Addr: addr, Lease: lease, Plain: true})
}

// launch starts a worker and opens its Locker.
func launch(tb testing.TB, name string, first command) *Worker {
	tb.Helper()
	w := &Worker{tb: tb, name: name, done: make(chan struct{}), calls: make(map[int]*Call)}
	if err := w.start(); err != nil {
		tb.Fatalf("start worker %s: %v", name, err)
	}
	tb.Cleanup(w.end)
	w.send(first).Await(Opened)
	return w
}

// start runs this binary again. The signal by which a child dies with its parent belongs to the thread that forked it, so a
// goroutine that keeps its thread starts the process and stays until it has ended.
func (w *Worker) start() error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	w.cmd = exec.Command(binary)
	w.cmd.Env = append(os.Environ(), environment+"=1")
	w.cmd.Stderr = &w.stderr
	w.cmd.SysProcAttr = dieWithParent()
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return err
	}
	if w.stdout, err = w.cmd.StdoutPipe(); err != nil {
		return err
	}
	started, read := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := w.cmd.Start()
		started <- err
		if err == nil {
			<-read
			_ = w.cmd.Wait() // how it ended is in ProcessState
			close(w.done)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	go func() {
		defer close(read)
		w.listen()
	}()
	return nil
}

// listen gives each event to its call until the process ends.
func (w *Worker) listen() {
	for in := json.NewDecoder(w.stdout); ; {
		var e Event
		if in.Decode(&e) != nil {
			return
		}
		e.At = time.Now()
		w.mu.Lock()
		c := w.calls[e.ID]
		w.mu.Unlock()
		c.events <- e
	}
}

// send sends a command.
func (w *Worker) send(c command) *Call {
	w.tb.Helper()
	w.last++
	c.ID = w.last
	call := &Call{worker: w, id: c.ID, do: c.Do, events: make(chan Event, 8+3*max(c.Count, c.Depth))}
	w.mu.Lock()
	w.calls[c.ID] = call
	w.mu.Unlock()
	line, err := json.Marshal(c)
	if err == nil {
		call.Sent = time.Now()
		_, err = w.stdin.Write(append(line, '\n'))
	}
	if err != nil {
		w.tb.Fatalf("worker %s: %s: %v", w.name, c.Do, err)
	}
	return call
}

// Lock has the worker lock name and keep it until Unlock. note is shown by inspection and part of the ticket.
func (w *Worker) Lock(name, note string) *Call { return w.Crowd(name, note, 1) }

// LockAs is Lock in the name of an owner, which other processes may use too.
func (w *Worker) LockAs(owner, name, note string) *Call {
	w.tb.Helper()
	return w.send(command{Do: lock, Name: name, Note: note, Owner: owner})
}

// Crowd is Lock in n goroutines at once.
func (w *Worker) Crowd(name, note string, n int) *Call {
	w.tb.Helper()
	return w.send(command{Do: lock, Name: name, Note: note, Count: n})
}

// Nest is Lock and, once it has it, Lock again within, depth times in all. Each is Granted.
func (w *Worker) Nest(name, note string, depth int) *Call {
	w.tb.Helper()
	return w.send(command{Do: nest, Name: name, Note: note, Depth: depth})
}

// Unlock ends what the call holds.
func (w *Worker) Unlock(of *Call) *Call {
	w.tb.Helper()
	return w.send(command{Do: unlock, Of: of.id})
}

// Loop has n goroutines lock and unlock name, rounds times together, or until the worker ends if rounds is 0. With a
// witness they look, while they hold it, whether they are alone.
func (w *Worker) Loop(name, note string, n, rounds int, witness bool) *Call {
	w.tb.Helper()
	return w.send(command{Do: loop, Name: name, Note: note, Count: n, Rounds: rounds, Witness: witness})
}

// Labour is Loop with a witness in one goroutine, each round of which lasts for so long.
func (w *Worker) Labour(name string, rounds int, lasting time.Duration) *Call {
	w.tb.Helper()
	return w.send(command{Do: loop, Name: name, Rounds: rounds, Witness: true, Lasting: lasting})
}

// Reach is Reached when the worker's loops have done so many more rounds.
func (w *Worker) Reach(rounds int) *Call {
	w.tb.Helper()
	return w.send(command{Do: reach, Rounds: rounds})
}

// Kill is kill -9. It returns when the process is gone.
func (w *Worker) Kill() {
	w.expects = true
	_ = w.cmd.Process.Kill() // fails only if it has ended already
	<-w.done
}

// Stop stops the process (SIGSTOP) and returns when it stands still.
func (w *Worker) Stop() {
	w.tb.Helper()
	if err := stop(w.cmd.Process.Pid); err != nil {
		w.tb.Fatalf("stop worker %s: %v", w.name, err)
	}
}

// Continue lets a stopped process go on (SIGCONT).
func (w *Worker) Continue() {
	w.tb.Helper()
	if err := resume(w.cmd.Process.Pid); err != nil {
		w.tb.Fatalf("continue worker %s: %v", w.name, err)
	}
}

// Quit ends the worker in good order: its Locker is closed and leaves nothing behind, neither at the server nor a goroutine.
func (w *Worker) Quit() {
	w.tb.Helper()
	w.expects = true
	_ = w.stdin.Close() // the process may be gone already, which the next lines tell
	select {
	case <-w.done:
	case <-time.After(Patience):
		w.tb.Fatalf("worker %s did not end", w.name)
	}
	if !w.cmd.ProcessState.Success() {
		w.tb.Errorf("worker %s ended with %v:\n%s", w.name, w.cmd.ProcessState, w.stderr.String())
	}
}

// end is the test's end.
func (w *Worker) end() {
	select {
	case <-w.done:
		if !w.expects {
			w.tb.Errorf("worker %s ended by itself: %v", w.name, w.cmd.ProcessState)
		}
	default:
		w.Kill()
	}
	_ = w.stdin.Close() // nobody reads it any more
	said := w.stderr.String()
	if strings.Contains(said, "DATA RACE") || strings.Contains(said, "panic:") || strings.Contains(said, "fatal error:") {
		w.tb.Errorf("worker %s:\n%s", w.name, said)
	} else if w.tb.Failed() && said != "" {
		w.tb.Logf("worker %s:\n%s", w.name, said)
	}
}

// Call is a command and what the worker reports of it.
type Call struct {
	Sent   time.Time // just before it went out
	worker *Worker
	id     int
	do     verb
	events chan Event
}

// Await returns the next event, which must be of this kind.
func (c *Call) Await(kind Kind) Event {
	c.worker.tb.Helper()
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	select {
	case e := <-c.events:
		if e.Kind != kind {
			c.fatal(fmt.Sprintf("%s, not %s: %+v", e.Kind, kind, e))
		}
		return e
	case <-patience.C:
		c.fatal(fmt.Sprintf("not %s within %v", kind, Patience))
	case <-c.worker.done:
		c.fatal(fmt.Sprintf("not %s, and the process ended: %v\n%s", kind, c.worker.cmd.ProcessState, &c.worker.stderr))
	}
	return Event{}
}

// Quiet fails the test if the worker has reported anything that was not awaited.
func (c *Call) Quiet() {
	c.worker.tb.Helper()
	select {
	case e := <-c.events:
		c.fatal(fmt.Sprintf("unexpectedly %s: %+v", e.Kind, e))
	default:
	}
}

func (c *Call) fatal(what string) {
	c.worker.tb.Helper()
	c.worker.tb.Fatalf("worker %s: %s: %s", c.worker.name, c.do, what)
}
