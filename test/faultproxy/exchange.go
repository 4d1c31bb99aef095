package faultproxy

import (
	"slices"
	"sync"
)

// request is one request as a client sent it.
type request struct {
	raw  []byte
	args []string
}

// exchange is a request on its way, with what its rules have decided.
type exchange struct {
	request
	action   Action          // the zero Action: just forward
	handles  []*Handle       // of the rules that count it
	released <-chan struct{} // closed when a held request may go on
	answered chan struct{}   // closed when the server has answered
}

func newExchange(r request) *exchange {
	return &exchange{request: r, answered: make(chan struct{})}
}

func (x *exchange) markAnswered() {
	close(x.answered)
	for _, h := range x.handles {
		h.markExecuted()
	}
}

var subscribing = Command(
	"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE",
)

// leavesOrder says whether from this request's reply on replies can no longer
// be matched to requests.
func (x *exchange) leavesOrder() bool { return subscribing(x.args) }

// queue holds the exchanges of one connection that wait for their replies,
// oldest first. The zero queue is empty.
type queue struct {
	mu      sync.Mutex
	waiting []*exchange // guarded by mu
}

func (q *queue) add(x *exchange) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, x)
}

// take removes and returns the exchange that the reply answers, or nil if it
// answers none: push frames do not, except that they confirm a subscription.
func (q *queue) take(reply []byte) *exchange {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 || isPush(reply) && !q.waiting[0].leavesOrder() {
		return nil
	}
	x := q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	return x
}
