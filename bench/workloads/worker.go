package workloads

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlock/locks/bench/host"
	"github.com/fairlock/locks/bench/peers"
)

// Worker runs in a worker's process. The directing process calls its methods through net/rpc.
type Worker struct {
	locker  peers.Locker
	waiting atomic.Int64 // calls that are known to wait or to have waited
	failed  atomic.Int64 // calls of Wait

	mu   sync.Mutex // guards held
	held map[string]peers.Lock
}

// None is an argument or an answer without content.
type None struct{}

// NewWorker opens the job's peer.
func NewWorker(job host.Job) (*Worker, error) {
	peer, ok := peers.Find(job.Peer)
	if !ok {
		return nil, errNoSuchPeer
	}
	locker, err := peer.Open(job.Config)
	return &Worker{locker: locker, held: map[string]peers.Lock{}}, err
}

// queued notes that one more call waits.
func (w *Worker) queued() { w.waiting.Add(1) }

// Queued returns how many calls are known to wait or to have waited.
func (w *Worker) Queued(_ None, n *int) error {
	*n = int(w.waiting.Load())
	return nil
}

// Acquire locks a name, keeps the lock, and returns the time of the grant (Unix ns).
func (w *Worker) Acquire(name string, at *int64) error {
	lock, err := w.locker.Lock(context.Background(), name, w.queued)
	*at = time.Now().UnixNano()
	if err != nil {
		return err
	}
	if there, ok := lock.(peers.Timed); ok {
		*at = there.Granted().UnixNano()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[name] = lock
	return nil
}

// Release unlocks what Acquire has locked, and returns the time when it began (Unix ns).
func (w *Worker) Release(name string, at *int64) error {
	w.mu.Lock()
	lock := w.held[name]
	delete(w.held, name)
	w.mu.Unlock()
	*at = time.Now().UnixNano()
	err := lock.Unlock(context.Background())
	if there, ok := lock.(peers.Timed); ok && err == nil {
		*at = there.Released().UnixNano()
	}
	return err
}

// Size is what a process takes.
type Size struct {
	Goroutines  int
	Heap, Stack float64 // bytes in use after a collection; negative: not known
}

// Size measures the process in which the peer works.
func (w *Worker) Size(_ None, s *Size) error {
	if there, ok := w.locker.(peers.Elsewhere); ok {
		threads, err := there.Threads()
		*s = Size{threads, -1, -1}
		return err
	}
	runtime.GC()
	runtime.GC() // frees what the finalizers and cleanups of the first collection let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	*s = Size{runtime.NumGoroutine(), float64(m.HeapAlloc), float64(m.StackInuse)}
	return nil
}

// CPU returns the processor time that the process has used, with that of the peer's own.
func (w *Worker) CPU(_ None, d *time.Duration) error {
	*d = host.CPU()
	if there, ok := w.locker.(peers.Elsewhere); ok {
		used, err := there.CPU()
		*d += used
		return err
	}
	return nil
}

// quantile sorts the values and returns a quantile; 0 if there are no values.
func quantile[T int64 | time.Duration](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(len(values)-1, int(q*float64(len(values))))]
}
