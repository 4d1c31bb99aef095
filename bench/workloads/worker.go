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

// Worker is what runs in a worker's process. Its methods are called by the directing process, by net/rpc.
type Worker struct {
	locker  peers.Locker
	waiting atomic.Int64 // calls that are known to wait
	failed  atomic.Int64 // calls of Wait

	mu   sync.Mutex // guards held
	held map[string]peers.Lock
}

// None is an argument or an answer without content.
type None struct{}

// NewWorker opens the peer.
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

// Queued tells how many calls are known to wait or to have waited.
func (w *Worker) Queued(_ None, n *int) error {
	*n = int(w.waiting.Load())
	return nil
}

// Acquire locks a name, keeps it, and tells when it was had (Unix ns).
func (w *Worker) Acquire(name string, at *int64) error {
	lock, err := w.locker.Lock(context.Background(), name, w.queued)
	*at = time.Now().UnixNano()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[name] = lock
	return nil
}

// Release unlocks what Acquire has locked, and tells when it began to (Unix ns).
func (w *Worker) Release(name string, at *int64) error {
	w.mu.Lock()
	lock := w.held[name]
	delete(w.held, name)
	w.mu.Unlock()
	*at = time.Now().UnixNano()
	return lock.Unlock(context.Background())
}

// Size is what a process takes.
type Size struct {
	Goroutines  int
	Heap, Stack float64 // bytes in use after a collection
}

// Size measures the process.
func (w *Worker) Size(_ None, s *Size) error {
	runtime.GC()
	runtime.GC() // what the first one's finalizers and cleanups let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	*s = Size{runtime.NumGoroutine(), float64(m.HeapAlloc), float64(m.StackInuse)}
	return nil
}

// CPU tells the processor time that the process has used.
func (w *Worker) CPU(_ None, d *time.Duration) error {
	*d = host.CPU()
	return nil
}

// quantile sorts values; 0 if there are none.
func quantile[T int64 | time.Duration](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(len(values)-1, int(q*float64(len(values))))]
}
