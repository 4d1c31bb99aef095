// Package batch joins requests that are ready at the same moment, so that they go out as one. No
// request waits for another request. But if others are under way, a new request first lets the
// other runnable goroutines run, and takes along what they ask.
package batch

// Batcher has the requests of one kind. The zero value has none. The user guards it with a mutex;
// no method here takes long.
type Batcher[T any] struct {
	underway int       // requests begun and not ended; a batch counts once
	open     *Batch[T] // the next request joins it; nil: the next request makes a batch
}

// Batch has the requests that go out as one, in the order in which they came.
type Batch[T any] struct {
	All      []T
	Answered chan struct{} // for the sender to close, if the other callers wait for that
}

// Begin adds a request. If the request does not share, or if no other is under way and it need not
// wait for others, it goes out alone and b is nil; else it goes out with the batch b.
//
// If sends is true, the caller has to send: the request alone, or all that [Batcher.Close] returns
// for b. [Batcher.End] must follow. If sends is false, the caller whose request is the first of
// the batch sends this request, too. A batch has at most most requests.
func (r *Batcher[T]) Begin(request T, shares, waits bool, most int) (b *Batch[T], sends bool) {
	switch {
	case !shares || r.underway == 0 && !waits:
	case r.open == nil:
		b = &Batch[T]{All: []T{request}, Answered: make(chan struct{})}
		r.open = b
	default:
		b = r.open
		if b.All = append(b.All, request); len(b.All) >= most {
			r.open = nil
		}
		return b, false
	}
	r.underway++
	return b, true
}

// Close lets no further request join the batch, and returns the requests to send. Before Close,
// without the mutex, the caller calls runtime.Gosched, so that runnable goroutines can add theirs.
func (r *Batcher[T]) Close(b *Batch[T]) []T {
	if r.open == b {
		r.open = nil
	}
	return b.All
}

// End notes that a sent request was answered or failed. It reports whether no request is under way
// any more.
func (r *Batcher[T]) End() (idle bool) {
	r.underway--
	return r.underway == 0
}
