package torture

import (
	"fmt"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// keeps holds two of the process's own locks for some renewals, which the two locks share. Whatever
// becomes of the prey, the other lock must stay.
func (h *hand) keeps() {
	for !h.over() {
		h.safely(0, h.keep)
		h.pause(time.Millisecond)
	}
}

func (h *hand) keep() {
	first := plan{lock: own + h.Process, how: tries, stay: h.between(time.Second, 5*time.Second/2)}
	second := plan{lock: prey + h.Process, how: tries}
	ops, leases := make([]int, 2), make([]*fairlock.Lease, 2)
	for i, p := range []plan{first, second} {
		p = h.finish(p)
		ops[i] = h.call(p)
		p.options = append(p.options, h.note(ops[i]))
		if leases[i] = h.asks(ops[i], p); leases[i] != nil {
			h.got(leases[i].Context(), ops[i], leases[i])
		}
	}
	if leases[0] != nil {
		h.stays(ops[0], first, leases[0])
	}
	for i, lease := range leases {
		if lease != nil {
			h.release(ops[i], lease)
		}
	}
}

// lends takes locks for minutes and gives them back at once.
func (h *hand) lends() {
	for !h.over() {
		p := plan{
			lock: fmt.Sprint(long, h.random.IntN(longLocks)), how: tries, stay: h.between(0, 5*time.Millisecond),
			fixed: h.between(longLease/3, longLease),
		}
		if h.chance(50) {
			p.how = patient
		}
		h.does(h.finish(p))
		h.pause(50 * time.Millisecond)
	}
}
