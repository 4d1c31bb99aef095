// Package batch has requests that are ready at the same moment go out as one. No request waits for
// another: one that finds others under way lets the goroutines run first that can run now, and
// takes along what they ask.
package batch

// Requests are those of one kind. The zero value has none. A mutex of the user guards it; nothing
// here takes long.
type Requests[T any] struct {
	underway int       // that were begun and have not ended, without those that a Batch speaks for
	open     *Batch[T] // which the next one joins; nil: it makes one
}

// Batch is the requests that go out as one, in the order in which they came.
type Batch[T any] struct {
	All      []T
	Answered chan struct{} // for whoever sends it to close, if the others wait for that
}

// Begin has a request go out alone, if no other is under way or it does not share; else with a
// batch. If it sends, it has to be sent by the caller, for all of the batch after [Requests.Close],
// and [Requests.End] must follow. If it does not, the first of the batch sends it. A batch has at
// most so many.
func (r *Requests[T]) Begin(request T, shares bool, most int) (b *Batch[T], sends bool) {
	switch {
	case !shares || r.underway == 0:
	case r.open == nil:
		b = &Batch[T]{All: []T{request}, Answered: make(chan struct{})}
		r.open = b
	default:
		b = r.open
		if b.All = append(b.All, request); len(b.All) == most {
			r.open = nil
		}
		return b, false
	}
	r.underway++
	return b, true
}

// Close says that nobody may join any more: the batch goes out. Before that the goroutines run that
// can run now (runtime.Gosched), without the mutex.
func (r *Requests[T]) Close(b *Batch[T]) []T {
	if r.open == b {
		r.open = nil
	}
	return b.All
}

// End notes that a request which was sent is answered, or failed. It reports whether none is under
// way any more.
func (r *Requests[T]) End() (idle bool) {
	r.underway--
	return r.underway == 0
}
