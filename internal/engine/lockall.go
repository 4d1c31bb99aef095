package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// LockAll is LockAll and the first half of DoAll; op names which.
//
// Everybody gets several locks in the order of their keys, so nobody waits in a circle. First all
// are asked for at once, by calls that do not wait. Those before the first that cannot be had are
// kept, and those behind it are given back. Then the call waits for that one. So it never waits for
// a lock while it has one that comes later.
func (c *Core) LockAll(ctx context.Context, op string, names []string, options []LockOption) (*Leases, error) {
	g := gathering{core: c, began: time.Now()}
	name, err := g.gather(ctx, names, options)
	if err == nil {
		return joined(ctx, g.had), nil
	}
	return nil, c.gaveUp(ctx, g.began, op, name, err)
}

// DoAll runs fn under all the locks and releases them when fn returns or panics.
func (c *Core) DoAll(ctx context.Context, names []string, fn func(context.Context, *Leases) error, options []LockOption) (err error) {
	if fn == nil {
		return c.gaveUp(ctx, time.Now(), "doall", "", Invalid("the function is nil"))
	}
	leases, err := c.LockAll(ctx, "doall", names, options)
	if err != nil {
		return err
	}
	var gone error // a lock was lost, or the Locker closed, before fn began
	over := false
	defer func() {
		err = c.afterDo(err, leases.unlock(ctx, true), gone, over)
	}()
	inner := leases.scoped(ctx)
	for _, lease := range leases.all {
		if gone = lease.state(); gone != nil { // the user's context may have taken long
			return &Error{"doall", lease.Name(), gone}
		}
	}
	err = fn(inner, leases)
	over = true
	return err
}

// wanted is one of the locks of a LockAll.
type wanted struct {
	name string
	keys lua.Keys
}

// gathering is a LockAll on its way.
type gathering struct {
	core    *Core
	began   time.Time
	request Request
	within  bool // the call was made under a live hold
	all     []wanted
	had     []*Lease // of the first of all
	spare   []*Turn  // on locks behind those, which are being given back
	told    bool     // the server has answered that somebody else has one
}

// gather gets all locks, or gives back what it had. The name is that of the lock that it did not
// get, if the error is about one.
func (g *gathering) gather(ctx context.Context, names []string, options []LockOption) (name string, err error) {
	if name, err = g.read(ctx, names, options); err != nil {
		return name, err
	}
	if g.core.isClosed() {
		return g.all[0].name, ErrClosed
	}
	complete := false
	defer func() {
		if !complete { // also after a panic in a callback
			g.giveBack(ctx, err != nil)
		}
	}()
	if err := g.core.contactFor(ctx, g.all[0].keys, g.request.Wait); err != nil {
		return g.all[0].name, err
	}
	g.within = g.core.within(ctx)
	for {
		if err := g.atOnce(ctx); err != nil {
			return g.next().name, err
		}
		if name, err := g.lost(); err != nil {
			return name, err
		}
		if len(g.had) == len(g.all) {
			err := g.handOut()
			complete = err == nil
			return g.all[0].name, err
		}
		if name, err := g.wait(ctx); err != nil {
			return name, err
		}
	}
}

// parting is how long a call whose time is over waits until what it had is given back.
const parting = 100 * time.Millisecond

// giveBack gives back what the call had. If that is to be waited for, giveBack waits as long as a
// try insists; where the call's time is over, a moment: an answer is nearly always there by then.
func (g *gathering) giveBack(ctx context.Context, waits bool) {
	if len(g.had)+len(g.spare) == 0 {
		return
	}
	done, until := make(chan struct{}), time.Now().Add(rules.InsistFor)
	g.core.Go(func() {
		defer close(done)
		if len(g.had) > 0 {
			_ = unlockAll(context.Background(), g.had, false)
		}
		for _, t := range g.spare {
			g.core.awaitGivenBack(context.Background(), t, until)
		}
	})
	if !waits {
		return
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	over := ctx.Done()
	if g.late() {
		timer.Reset(parting)
	}
	for {
		select {
		case <-over:
			over = nil
			timer.Reset(parting)
		case <-done:
			return
		case <-timer.C:
			return
		}
	}
}

func (g *gathering) next() wanted { return g.all[len(g.had)] }

// call is a call for one of the locks, which begins now.
func (g *gathering) call(w wanted, r Request) Call {
	return Call{Name: w.name, Keys: w.keys, Request: r, Within: g.within || len(g.had) > 0, Began: time.Now()}
}

// read checks what the call asks for, before anything is sent.
func (g *gathering) read(ctx context.Context, names []string, options []LockOption) (name string, err error) {
	if len(names) == 0 {
		return "", errors.Join(Invalid("there are no names"), g.core.Settings.Err)
	}
	for _, name := range names {
		call := Call{Name: name}
		if err := g.core.read(ctx, &call, options); err != nil {
			return name, err
		}
		g.request = call.Request
		g.all = append(g.all, wanted{name, call.Keys})
	}
	slices.SortStableFunc(g.all, func(a, b wanted) int { return cmp.Compare(a.keys.Record(), b.keys.Record()) })
	g.all = slices.CompactFunc(g.all, func(a, b wanted) bool { return a.keys == b.keys })
	return "", nil
}

// lost is the name of one of the locks that the call had and has lost, and why.
func (g *gathering) lost() (name string, err error) {
	for _, lease := range g.had {
		if err := lease.state(); err != nil {
			return lease.Name(), err
		}
	}
	return "", nil
}

// wait waits in line for the next lock. The wait also ends if a lock that the call has is lost:
// nobody can have used it, but all locks have to be had at one time.
func (g *gathering) wait(ctx context.Context) (name string, err error) {
	request := g.left()
	request.Answered = g.told
	watched, stop := endsWithAny(ctx, g.had)
	defer stop()
	next := g.next()
	call := g.call(next, request)
	lease, err := g.core.pursue(watched, &call, g.began, g.request.Wait)
	if err == nil {
		g.has(lease)
		return "", nil
	}
	switch name, lost := g.lost(); {
	case HasEnded(ctx):
		return next.name, endedBy(ctx, err)
	case lost != nil && !errors.Is(lost, ErrClosed):
		return name, lost
	}
	return next.name, err
}

// endedBy is the error of a call whose context has ended. watched does not know that one's error.
func endedBy(ctx context.Context, err error) error {
	end, ok := err.(*WaitError) //nolint:errorlint // what it wraps may be the user's, and is not asked
	if !ok {
		return err
	}
	its := *end
	its.Err = EndOf(ctx)
	return &its
}

// endsWithAny is ctx until one of the locks is lost. stop ends it.
func endsWithAny(ctx context.Context, leases []*Lease) (watched context.Context, stop func()) {
	until, end := context.WithCancelCause(lua.Asked(ctx))
	var forget []func() bool
	for _, lease := range leases {
		forget = append(forget, context.AfterFunc(lease.Context(), func() { end(context.Cause(lease.Context())) }))
	}
	return &watching{until, ctx}, func() {
		for _, f := range forget {
			f()
		}
		end(nil)
	}
}

// errNotAsked stands for the answer about a lock that need not be asked for at once, because to
// wait for it asks, too.
var errNotAsked = errors.New("the lock was not asked for")

// answer is what came of asking for one lock at once.
type answer struct {
	lease *Lease // by re-entry
	turn  *Turn
	err   error
}

// atOnce gets those of the remaining locks that can be had now, up to the first that cannot. It
// returns an error unless the call may wait for that one.
func (g *gathering) atOnce(ctx context.Context) (err error) {
	rest := g.all[len(g.had):]
	answers := make([]answer, len(rest))
	defer func() { // what is behind the first that cannot be had
		for _, a := range answers {
			if a.turn != nil {
				if g.core.Abandon(a.turn) { // else it was lost, and nothing is being given back
					g.spare = append(g.spare, a.turn)
				}
			}
			if a.lease != nil && a.lease.forgo() {
				g.spare = append(g.spare, a.lease.share.turn)
			}
		}
	}()
	if err := g.ask(ctx, rest, answers); err != nil {
		return err
	}
	for i := range answers {
		a := answers[i]
		answers[i] = answer{}
		if a.turn != nil {
			a.lease, a.err = g.core.Adopt(ctx, a.turn, g.began, g.request.Wait)
		}
		if a.err == nil {
			g.has(a.lease)
			continue
		}
		g.told = g.told || errors.Is(a.err, ErrHeld)
		if g.mayWait(a.err) {
			return nil
		}
		return a.err
	}
	return nil
}

// mayWait reports whether the call may wait for a lock that it could not get at once.
func (g *gathering) mayWait(err error) bool {
	switch {
	case errors.Is(err, errNotAsked):
		return true
	case g.request.Wait == 0 || g.late():
		return false
	case errors.Is(err, ErrHeld) || errors.Is(err, ErrLost) || errors.Is(err, rules.ErrUnreachable):
		return true
	case errors.Is(err, ErrQueueFull) || errors.Is(err, ErrNotReplicated) || errors.Is(err, ErrEvicted) ||
		errors.Is(err, ErrClosed) || errors.As(err, new(*WaitError)):
		return false
	}
	return rules.Patient(g.told, err) // a failure, which need not end a call that waits
}

// left is the request with what is left of the time to wait.
func (g *gathering) left() Request {
	request := g.request
	if request.Wait > 0 {
		request.Wait = max(time.Until(g.began.Add(request.Wait)), 1)
	}
	return request
}

// has notes that the call has one more lock, which its caller does not have yet: if the Locker is
// closed before it does, Close gives the lock back.
func (g *gathering) has(lease *Lease) {
	g.core.mu.Lock()
	defer g.core.mu.Unlock()
	lease.share.gathered = true
	g.had = append(g.had, lease)
}

// handOut notes that the caller has the Leases, unless the Locker was closed before: then Close has
// given back their locks.
func (g *gathering) handOut() error {
	g.core.mu.Lock()
	defer g.core.mu.Unlock()
	if g.core.closed {
		return ErrClosed
	}
	for _, lease := range g.had {
		lease.share.gathered = false
	}
	return nil
}

// late reports whether the time to wait is over.
func (g *gathering) late() bool {
	return g.request.Wait > 0 && time.Since(g.began) >= g.request.Wait
}

// ask re-enters, or asks for, each of the locks, side by side.
func (g *gathering) ask(ctx context.Context, rest []wanted, answers []answer) error {
	try := g.request
	try.Wait = 0
	var indices []int
	var of []lua.Keys
	for i, w := range rest {
		a := &answers[i]
		if a.lease, a.err = g.core.Reenter(ctx, w.keys.Record(), g.left()); a.lease == nil && a.err == nil {
			indices, of = append(indices, i), append(of, w.keys)
		}
	}
	switch {
	case len(of) == 0:
		return nil
	case len(of) == 1 && g.request.Wait != 0:
		answers[indices[0]].err = errNotAsked
		return nil
	}
	// The user's context is not for several goroutines at once: its methods may panic, or take long.
	asking, stop := context.WithCancelCause(detached(ctx))
	done := make(chan struct{})
	defer func() { // also after a panic
		stop(context.Canceled)
		<-done
	}()
	g.core.Go(func() {
		defer close(done)
		g.core.sideBySide(of, func(i int, by *lua.Server) {
			w, a := rest[indices[i]], &answers[indices[i]]
			call := g.call(w, try)
			call.Server = by
			a.err = lua.ErrCutShort // if a hook of the client's ends this goroutine
			a.turn, a.err = g.core.strategy.Acquire(asking, call)
		})
	})
	var timeout <-chan time.Time
	if g.request.Wait > 0 {
		timer := time.NewTimer(time.Until(g.began.Add(g.request.Wait)))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return waited(ctx, g.began)
	case <-timeout:
		return &WaitError{Waited: time.Since(g.began), Err: context.DeadlineExceeded}
	}
}
