package engine

import "sync"

// Tasks counts goroutines so that Close can wait for them. Unlike a WaitGroup, it may be added to
// while Close waits.
type Tasks struct {
	mu   sync.Mutex // guards n and idle
	n    int
	idle []chan struct{} // closed when n reaches zero
}

// Go runs f in a goroutine that Wait waits for.
func (t *Tasks) Go(f func()) {
	t.Begun()
	go func() {
		defer t.Done()
		f()
	}()
}

// Repeat runs step in a goroutine until it reports that it is over, with pauses in between. A step
// that does not return is not over: a hook of the client's has ended the goroutine.
func (t *Tasks) Repeat(step func() (over bool), pause func()) {
	t.Go(func() {
		over := false
		defer func() {
			if !over {
				t.Go(func() {
					pause()
					t.Repeat(step, pause)
				})
			}
		}()
		for over = step(); !over; over = step() {
			pause()
		}
	})
}

// Begun notes that the calling goroutine has begun a task. Wait waits for it until Done.
func (t *Tasks) Begun() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
}

// Done ends what Begun began.
func (t *Tasks) Done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 {
		for _, c := range t.idle {
			close(c)
		}
		t.idle = nil
	}
}

// Wait returns when no task runs.
func (t *Tasks) Wait() {
	t.mu.Lock()
	if t.n == 0 {
		t.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	t.idle = append(t.idle, idle)
	t.mu.Unlock()
	<-idle
}

// atOnce is how many requests of one batch are under way that cannot share one.
const atOnce = 32

// ForEach calls do for each of n, some of them side by side, and returns when all have returned.
func ForEach(n int, do func(i int)) {
	var all sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for i := range n {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			do(i)
		})
	}
	all.Wait()
}
