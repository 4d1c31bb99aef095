package torture

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// history is what all workers say that they did.
type history struct {
	calls  []*call
	acks   map[string]int // accepted writes, by process
	barred []barred       // refused writes
	lives  map[string]*life
	tricks map[string]int  // of callbacks, by name
	again  int             // subscriptions made again
	over   int             // waiters that came back after they were passed over
	ended  map[string]bool // processes that ended in good order
	taken  []*robbery
}

// robbery is a call of ForceUnlock or Evict.
type robbery struct {
	life *life
	op   int
	how  string
	from int64
	to   int64 // 0: its process was killed first
	why  string
}

// barred is a refused write of a worker that still trusted the lock afterwards.
type barred struct {
	by *call
	at int64
}

// call is one call, and its lease if it had one.
type call struct {
	life   *life
	op     int
	lock   string
	how    manner
	desk   int  // the number of its Locker
	fixed  bool // the lease is not renewed
	began  int64
	ended  int64  // 0: the process was killed first
	limit  int64  // the time in which the call must end; 0: it waits
	why    string // why the call was refused; "": it was not
	queued bool   // the call waited, and knew that
	stood  int64  // when it knew
	broke  int64  // when a callback ended the call; 0: none did
	plays  int64  // for how long a callback of its own kept the call
	antic  string // how that callback misbehaves; "": it does not

	// The lease.
	owner    string
	token    int64  // 0: the call had no lease
	until    int64  // when trust would end, by the last note
	over     int64  // when the contexts had ended; 0: not noted
	cause    string // why the contexts ended
	gone     int64  // when the loss was noticed; 0: never
	doubt    string // why the lease was no longer trusted when Unlock was called
	given    int64  // when Unlock was called; 0: never
	sure     bool   // the lease was trusted until then
	released int64  // when Unlock returned; 0: never
	outcome  string // why Unlock failed; "": it did not
}

// trusts returns from when on the lease was certainly trusted. That is the server's time of the
// grant, which is also the token, or else the call's return.
func (c *call) trusts() int64 {
	if at := c.token * 1000; c.began <= at && at <= c.ended {
		return at
	}
	return c.ended
}

// trusted returns until when the lease was certainly trusted, by Err or by its contexts, whichever
// is later.
func (c *call) trusted() int64 {
	end := c.believed()
	return end + max(0, c.outlives(end))
}

// believed returns until when the lease was trusted by Err and Deadline. A process that stands
// still keeps its trust until its last known deadline, and a killed one until its death.
func (c *call) believed() int64 {
	if c.given != 0 && c.sure {
		return c.given
	}
	end := c.until
	for _, at := range []int64{c.given, c.gone, c.life.Killed} {
		if at != 0 && at < end {
			end = at
		}
	}
	return end
}

// readHistory reads the journals of all lives.
func readHistory(lives []*life) (*history, error) {
	h := &history{acks: make(map[string]int), tricks: make(map[string]int), lives: make(map[string]*life), ended: make(map[string]bool)}
	for _, l := range lives {
		h.lives[l.Process] = l
		text, err := os.ReadFile(l.journal)
		if os.IsNotExist(err) { // killed before its first line
			continue
		}
		if err == nil {
			err = h.read(l, text)
			l.stills = merged(l.stills)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.journal, err)
		}
	}
	return h, nil
}

// read reads one journal. The last line may be cut off.
func (h *history) read(l *life, text []byte) error {
	calls := make(map[int]*call)
	for in := bufio.NewReader(bytes.NewReader(text)); ; {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		var e event
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		if err != nil {
			return err
		}
		switch e.Kind {
		case called:
			c := &call{life: l, op: e.Op, lock: e.Lock, how: manner(e.How), began: e.At, limit: e.Limit, desk: e.Locker, fixed: e.Fixed}
			calls[e.Op] = c
			h.calls = append(h.calls, c)
		case again:
			h.again++
		case passed:
			h.over++
		case ended:
			h.ended[l.Process] = true
		case still:
			l.stills = append(l.stills, stretch{from: e.At, to: e.Until})
		case takes:
			h.taken = append(h.taken, &robbery{life: l, op: e.Op, how: e.How, from: e.At})
		case took:
			i := slices.IndexFunc(h.taken, func(r *robbery) bool { return r.life == l && r.op == e.Op })
			h.taken[i].to, h.taken[i].why = e.At, e.Why
		case closing, drains, closed:
			l.closes(e)
			if e.Kind == closing {
				h.tricks[e.How]++
			}
		case antic:
			h.tricks[e.How]++
			if c := calls[e.Op]; c != nil {
				c.plays, c.antic = c.plays+e.Limit, e.How
			}
		default:
			if c := calls[e.Op]; c != nil {
				h.happens(l, c, e)
			}
		}
	}
}

// happens notes what became of a call.
func (h *history) happens(l *life, c *call, e event) {
	switch e.Kind {
	case got:
		c.ended, c.owner, c.token, c.until = e.At, e.Owner, e.Token, e.Until
	case refused:
		c.ended, c.why = e.At, e.Why
	case kept:
		c.until = max(c.until, e.Until)
	case queued:
		c.queued, c.stood = true, e.At
	case broke:
		c.broke = e.At
	case over:
		c.over, c.cause, c.until = e.At, e.Why, max(c.until, e.Until)
		if e.Why == whyLost {
			c.gone = e.At
		}
	case unlock:
		c.given, c.sure, c.doubt = e.At, e.Trusted, e.Why
	case unlocked:
		c.released, c.outcome = e.At, e.Why
	case wrote:
		switch {
		case !e.Stale:
			h.acks[l.Process]++
		case e.Trusted:
			h.barred = append(h.barred, barred{c, e.At})
		}
	default:
	}
}

// leases returns the calls that had a lease.
func (h *history) leases() []*call {
	var all []*call
	for _, c := range h.calls {
		if c.token != 0 {
			all = append(all, c)
		}
	}
	return all
}

// unended lists the calls and processes that did not end although nobody killed them.
func (h *history) unended() []string {
	var wrong []string
	for _, c := range h.calls {
		if c.life.Killed == 0 && c.broke == 0 && (c.ended == 0 || c.token != 0 && c.released == 0) {
			wrong = append(wrong, fmt.Sprintf("%v did not end", c))
		}
	}
	for _, l := range h.lives {
		if l.Killed == 0 && !h.ended[l.Process] {
			wrong = append(wrong, l.Process+" did not end in good order")
		}
	}
	return wrong
}

// slack is how much later than its limit a call may end, because the machine has other things to
// do.
const slack = 2 * time.Second

// late lists the calls that did not end in time although their process did not stand still.
func (h *history) late() []string {
	var wrong []string
	for _, c := range h.calls {
		over := c.ended - c.began - c.limit - c.plays - slack.Nanoseconds()
		if c.limit == 0 || c.ended == 0 || over <= 0 {
			continue
		}
		if over -= c.life.stood(c.began, c.ended); over > 0 {
			wrong = append(wrong, fmt.Sprintf("%v took %v, with a limit of %v", c, time.Duration(c.ended-c.began), time.Duration(c.limit)))
		}
	}
	return wrong
}

func (c *call) String() string {
	text := fmt.Sprintf("%s:%d %s %s", c.life.Process, c.op, c.how, c.lock)
	if c.token == 0 {
		return fmt.Sprintf("%s [%s, %s] %s", text, clock(c.began), clock(c.ended), c.why)
	}
	return fmt.Sprintf("%s as %s with token %d [%s, %s]", text, c.owner, c.token, clock(c.trusts()), clock(c.trusted()))
}
