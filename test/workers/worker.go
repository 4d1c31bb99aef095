package workers

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"
)

// Worker is the test's handle on a worker process. Its methods belong to the test's own goroutine.
type Worker struct {
	*Process
	last int // the last command's ID

	mu    sync.Mutex    // guards calls
	calls map[int]*Call // by ID of the command
}

// Start starts a worker that uses the server at addr, and returns when the worker is ready. name is
// for messages. The worker is killed when the test ends; anything on its standard error until then
// fails the test.
func Start(tb testing.TB, name, addr string, lease time.Duration) *Worker {
	tb.Helper()
	return launch(tb, name, command{Do: open, Addr: addr, Lease: lease})
}

// StartPlain is Start for a worker whose locks have no line.
func StartPlain(tb testing.TB, name, addr string, lease time.Duration) *Worker {
	tb.Helper()
	return launch(tb, name, command{Do: open, Addr: addr, Lease: lease, Plain: true})
}

// StartBehind is Start, or StartPlain, for a worker that asks sentinels for its server.
func StartBehind(tb testing.TB, name string, sentinels []string, lease time.Duration, plain bool) *Worker {
	tb.Helper()
	return launch(tb, name, command{Do: open, Group: sentinels, Lease: lease, Plain: plain})
}

// StartOnCluster is Start for a worker that uses the cluster of these nodes.
func StartOnCluster(tb testing.TB, name string, nodes []string, lease time.Duration) *Worker {
	tb.Helper()
	return launch(tb, name, command{Do: open, Cluster: nodes, Lease: lease})
}

// launch starts a worker and opens its Locker.
func launch(tb testing.TB, name string, first command) *Worker {
	tb.Helper()
	w := &Worker{calls: make(map[int]*Call)}
	w.Process = Launch(tb, name, environment+"=1", w.listen)
	w.send(first).Await(Opened)
	return w
}

// listen passes each event to its call until the process ends.
func (w *Worker) listen(out io.Reader) {
	for in := json.NewDecoder(out); ; {
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

// Lock has the worker lock name and hold it until Unlock. note becomes part of the ticket, and
// Inspect shows it.
func (w *Worker) Lock(name, note string) *Call { return w.Crowd(name, note, 1) }

// LockAs is Lock for a named owner, which other processes may use too.
func (w *Worker) LockAs(owner, name, note string) *Call {
	w.tb.Helper()
	return w.send(command{Do: lock, Name: name, Note: note, Owner: owner})
}

// Crowd is Lock in n goroutines at once.
func (w *Worker) Crowd(name, note string, n int) *Call {
	w.tb.Helper()
	return w.send(command{Do: lock, Name: name, Note: note, Count: n})
}

// Nest is Lock, and then Lock again inside the lease, depth times in all. Each lock is Granted.
func (w *Worker) Nest(name, note string, depth int) *Call {
	w.tb.Helper()
	return w.send(command{Do: nest, Name: name, Note: note, Depth: depth})
}

// Unlock releases what the call holds.
func (w *Worker) Unlock(of *Call) *Call {
	w.tb.Helper()
	return w.send(command{Do: unlock, Of: of.id})
}

// Loop has n goroutines lock and unlock name, rounds times together. If rounds is 0, they go on
// until the worker ends. With a witness they check, while they hold the lock, whether they are
// alone.
func (w *Worker) Loop(name, note string, n, rounds int, witness bool) *Call {
	w.tb.Helper()
	return w.send(command{Do: loop, Name: name, Note: note, Count: n, Rounds: rounds, Witness: witness})
}

// Labour is Loop with a witness in one goroutine. Each round takes that long.
func (w *Worker) Labour(name string, rounds int, lasting time.Duration) *Call {
	w.tb.Helper()
	return w.send(command{Do: loop, Name: name, Rounds: rounds, Witness: true, Lasting: lasting})
}

// Reach is Reached when the worker's loops have done that many more rounds.
func (w *Worker) Reach(rounds int) *Call {
	w.tb.Helper()
	return w.send(command{Do: reach, Rounds: rounds})
}

// Guard has n goroutines lock and unlock name, and hold it for lasting each time. While they hold
// the lock they write to the fence at addr. The call is Done after a Halt.
func (w *Worker) Guard(name, addr string, n int, lasting time.Duration) *Call {
	w.tb.Helper()
	return w.send(command{Do: guard, Name: name, Addr: addr, Count: n, Lasting: lasting})
}

// Halt ends the loops at the fence.
func (w *Worker) Halt() {
	w.tb.Helper()
	w.send(command{Do: halt})
}

// Call is a command, and the events that answer it.
type Call struct {
	Sent   time.Time // just before the command went out
	worker *Worker
	id     int
	do     verb
	events chan Event
}

// Await returns the next event, which must be of this kind.
func (c *Call) Await(kind Kind) Event {
	c.worker.tb.Helper()
	return c.AwaitWithin(Patience, kind)
}

// AwaitWithin is Await for what takes a while on a busy machine.
func (c *Call) AwaitWithin(bound time.Duration, kind Kind) Event {
	c.worker.tb.Helper()
	patience := time.NewTimer(bound)
	defer patience.Stop()
	select {
	case e := <-c.events:
		if e.Kind != kind {
			c.fatal(fmt.Sprintf("%s, not %s: %+v", e.Kind, kind, e))
		}
		return e
	case <-patience.C:
		c.fatal(fmt.Sprintf("not %s within %v", kind, bound))
	case <-c.worker.done:
		c.fatal(fmt.Sprintf("not %s, and the process ended: %v\n%s", kind, c.worker.cmd.ProcessState, &c.worker.stderr))
	}
	return Event{}
}

// Quiet fails the test if the worker has reported an event that no Await has taken.
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
